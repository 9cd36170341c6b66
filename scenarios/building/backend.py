"""The build backend that pyproject.toml names (PEP 517): setuptools' own, which compiles the core where it can.

HIGHWATER_COMPILE=auto compiles where a C compiler and Python's headers are to be had, and is silent and plain where
they are not, or where anything of the compiling fails; with 1 a failure is an error (`make wheel`). Without it the
wheel is plain: compiling takes minutes, which a first look need not wait for. An editable installation is always plain.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import build_editable as build_editable
from setuptools.build_meta import build_sdist as build_sdist
from setuptools.build_meta import get_requires_for_build_editable as get_requires_for_build_editable
from setuptools.build_meta import get_requires_for_build_sdist as get_requires_for_build_sdist
from setuptools.build_meta import prepare_metadata_for_build_editable as prepare_metadata_for_build_editable
from setuptools.build_meta import prepare_metadata_for_build_wheel as prepare_metadata_for_build_wheel

from scenarios.building.extensions import MYPY, can_compile, compiling

Settings = Mapping[str, Any] | None

_CHOICE = "HIGHWATER_COMPILE"


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """mypyc comes with mypy; an installation without a compiler need not load it."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *([MYPY] if _is_wanted() else [])]


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """returns: the name of the wheel in `wheel_directory`     raises: whatever failed, with HIGHWATER_COMPILE=1"""
    if _is_wanted():
        try:
            with compiling():
                return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))
        except (Exception, SystemExit):  # mypyc ends the process when a module does not pass.
            if _is_demanded():
                raise
    return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))


def _is_demanded() -> bool:
    return os.environ.get(_CHOICE) == "1"


def _is_wanted() -> bool:
    return _is_demanded() or (os.environ.get(_CHOICE) == "auto" and can_compile())
