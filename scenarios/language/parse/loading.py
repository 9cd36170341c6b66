"""The loader of scenario files, which returns a `ScenarioFile` or reports all errors. It runs and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from scenarios.language.diagnostics import Diagnostic, Place, Problems, ScenarioInvalid, SourceText, TooManyProblems
from scenarios.language.expect import Expect
from scenarios.language.parse.catalogue import LESSONS
from scenarios.language.parse.cluster import read_cluster, read_era, read_network, read_topics
from scenarios.language.parse.expect import read_expect
from scenarios.language.parse.lints import lint
from scenarios.language.parse.process_order import marked
from scenarios.language.parse.steps import read_labels, read_questions, read_timeline
from scenarios.language.parse.variants import Override, apply_variant, suggest_whole_paths
from scenarios.language.parse.workloads import read_workloads
from scenarios.language.spec import SCHEMA, NetworkSpec, Scenario, ScenarioFile, Source
from scenarios.language.steps import MODIFIERS
from scenarios.language.values.config_files import ConfigFiles
from scenarios.language.values.reading import SLUG, Fields, Reader, shortened
from scenarios.language.values.scope import Scope
from scenarios.language.values.synonyms import below_top
from scenarios.language.values.yaml_source import Mapping, Node, Scalar, parse, read_text
from scenarios.language.verbs.every import VERBS

VARIANTS_MAX = 50
SEED_MAX = 2**63 - 1
REQUIRED_FIELDS = {
    "schema": str(SCHEMA),
    "id": "my-first",
    "title": "What it shows",
    "duration": "60s",
    "cluster": "{brokers: {b1: {}, b2: {}, b3: {}}}",
    "topics": "{t: {partitions: 1, replication_factor: 3}}",
    "workloads": "{p1: {kind: producer, topic: t}}",
    "timeline": "[]",
}
"""The required fields of a scenario, each with an example of its value."""
FIELDS = (
    "schema",
    "id",
    "variant",
    "title",
    "question",
    "questions",
    "sources",
    "lesson",
    "tags",
    "seed",
    "duration",
    "profile",
    "protocol",
    "cluster",
    "topics",
    "network",
    "workloads",
    "timeline",
    "expect",
    "variants",
)
_NAMED = f"help: fields of the scenario: {', '.join(name for name in FIELDS if name != 'variant')}"
"""Note with the fields that a file may have. `variant` is left out, because only lock files have it."""
_NEW = "run `highwater new FILE` to write a first scenario"
_OF_OTHERS = {
    "services": ("a Docker Compose file", _NEW),
    "apiVersion": ("a Kubernetes file", _NEW),
    "answers": ("the answer sheet of an exercise", "run `highwater lab check NAME FILE` to judge it"),
}
"""Top-level keys of files that are not scenarios, each with the kind of such a file and advice."""
_STEPS = dict.fromkeys((*MODIFIERS, *VERBS), "belongs to a step: indent it below a `-` of `timeline:`")
VARIANT_FIELDS = ("id", "title", "patch", "add_timeline", "expect")
_OF_PATCHES = {
    **{name: f"belongs under `patch:`, as `patch: {{{name}: ...}}`" for name in FIELDS if name not in VARIANT_FIELDS},
    "config": "belongs under `patch:`, such as `patch: {workloads: {p1: {config: {acks: all}}}}`",
}


def load_file(path: str | Path, overrides: Sequence[str] = (), only: str | None = None) -> ScenarioFile:
    """Load a scenario and its variants from a file.

    Args:
        overrides: settings of the form `path=value`, which replace values of the file.
        only: the one run to which the overrides apply: `base` or the id of a variant. None applies them to all.

    Raises:
        ScenarioInvalid: with every error and warning of the file.
    """
    problems = Problems()
    text = read_text(Path(path), str(path), problems)
    if text is None:
        raise ScenarioInvalid(str(path), problems.sorted())
    return _loaded(text, str(path), overrides, only, ConfigFiles(Path(path).parent))


def load_text(
    text: str,
    name: str,
    overrides: Sequence[str] = (),
    only: str | None = None,
    config_files: MappingType[str, str] | None = None,
) -> ScenarioFile:
    """Load a scenario and its variants from a text, as `load_file` does from a file.

    Args:
        name: name of the text in diagnostics.
        config_files: text of each file that `config_file` may name, by file name; none by default.

    Raises:
        ScenarioInvalid: with every error and warning of the text.
    """
    return _loaded(text, name, overrides, only, ConfigFiles(texts=dict(config_files or {})))


def _loaded(text: str, name: str, overrides: Sequence[str], only: str | None, files: ConfigFiles) -> ScenarioFile:
    problems = Problems()
    loaded = None
    with suppress(TooManyProblems):
        loaded = _load(text, name, overrides, only, problems, files)
    if loaded is None or problems.any_error:
        raise ScenarioInvalid(name, problems.sorted())
    scenario, variants = loaded
    return ScenarioFile(
        path=name,
        text=text,
        scenario=scenario,
        variants=variants,
        warnings=problems.sorted(),
        config_files=dict(files.texts),
    )


def check_file(path: str | Path) -> tuple[Diagnostic, ...]:
    """Return the errors and warnings of a file, sorted by place."""
    try:
        return load_file(path).warnings
    except ScenarioInvalid as invalid:
        return invalid.diagnostics


def _load(
    text: str, name: str, settings: Sequence[str], only: str | None, problems: Problems, files: ConfigFiles
) -> tuple[Scenario, dict[str, Scenario]] | None:
    source = SourceText.of(name, text)
    root = parse(text, source, problems)
    if not isinstance(root, Mapping):
        if not problems.found:
            place = Place(source, 0, 0)
            problems.add(
                Diagnostic(code="E111", title="a scenario must be a mapping that begins with `schema: 1`", place=place)
            )
        return None
    if "schema" not in root.entries and (foreign := next((key for key in _OF_OTHERS if key in root.entries), None)):
        whose, fix = _OF_OTHERS[foreign]
        title = f"this looks like {whose}, not a scenario"
        problems.add(Diagnostic(code="E111", title=title, place=root.entries[foreign][0].place, label=fix))
        return None
    base = Mapping(root.place, {key: entry for key, entry in root.entries.items() if key != "variants"})
    overrides = [Override(text, problems) for text in settings]
    scenario = _read(_overridden(base, overrides if only in (None, "base") else ()), None, problems, files)
    variants: dict[str, Scenario] = {}
    problems.variant = None
    for variant, tree in _variants(root, problems):
        resolved = _read(_overridden(tree, overrides if only in (None, variant) else ()), variant, problems, files)
        if resolved is not None:
            variants[variant] = resolved
    problems.variant = None
    suggest_whole_paths(problems, overrides, base)
    return None if scenario is None else (scenario, variants)


def _overridden(tree: Mapping, overrides: Sequence[Override]) -> Mapping:
    for override in overrides:
        tree = override.applied_to(tree)
    return tree


def _variants(root: Mapping, problems: Problems) -> list[tuple[str, Mapping]]:
    reader = Reader(problems)
    node = root.get("variants")
    items = [] if node is None else reader.items(node, "variants", "`variants`", _variant_example(node))
    if node is not None and len(items) > VARIANTS_MAX:
        reader.error(
            "E140",
            f"the file has {len(items)} variants; at most {VARIANTS_MAX} are allowed",
            node.place,
            path="variants",
        )
        return []
    trees: dict[str, Mapping] = {}
    for number, (item, path) in enumerate(items, 1):
        fields = reader.fields(
            item, path, f"variant {number}", VARIANT_FIELDS, {"id": "contrast"}, elsewhere=_OF_PATCHES
        )
        variant = fields.read("id", lambda n, p: reader.slug(n, p, "`id`"), "")
        if variant == "base":
            reader.error(
                "E113",
                "a variant cannot be called `base`: that name stands for the scenario itself",
                fields.key_place("id"),
                path=f"{path}.id",
            )
        if variant in trees:
            reader.error("E134", f"two variants are called `{variant}`", fields.key_place("id"), path=f"{path}.id")
        if variant not in ("", "base") and "expect" not in fields:
            title = f"variant `{variant}` has no `expect`: it can neither pass nor fail"
            place = fields.key_place("id")
            problems.add(Diagnostic(code="W204", title=title, place=place, path=path, variants=(variant,)))
        if _patch_is_usable(reader, fields) and isinstance(item, Mapping) and variant:
            trees.setdefault(variant, apply_variant(root, item))
    return list(trees.items())


def _variant_example(node: Node) -> str:
    """Return advice to write a list, with an example, for `variants` that are not a list."""
    first = next(iter(node.entries), "") if isinstance(node, Mapping) else ""
    name = first if SLUG.fullmatch(first) and first not in VARIANT_FIELDS else "contrast"
    return f"write a list, such as `- {{id: {name}, patch: {{...}}, expect: {{verdict: ok}}}}`"


def _patch_is_usable(reader: Reader, fields: Fields) -> bool:
    found = fields.get("patch")
    if found is None:
        return True
    patch, path = found
    if not isinstance(patch, Mapping):
        reader.error("E136", "`patch` must be a mapping with keys of the scenario", patch.place, path=path)
        return False
    usable = True
    for key, own in (
        ("expect", "write `expect` beside `patch`"),
        ("variants", "a variant cannot have variants"),
        ("id", "all variants keep the id of the file"),
        ("schema", "all variants keep the schema of the file"),
    ):
        if key in patch.entries:
            reader.error(
                "E136", f"`{key}` cannot be patched", patch.entries[key][0].place, path=f"{path}.{key}", label=own
            )
            usable = False
    return usable


# ---------------------------------------------------------------------------------------------------- one resolved tree


def _read(tree: Mapping, variant: str | None, problems: Problems, files: ConfigFiles) -> Scenario | None:
    """Read a resolved tree into a scenario. Return None if `cluster` is missing, because all other parts refer to it.

    Args:
        variant: id of the variant; None for the file itself.
    """
    problems.variant = variant or "base"
    reader = Reader(problems, files)
    scope = Scope(reader)
    elsewhere = {**_STEPS, **below_top(), **_set_paths(tree)}
    fields = reader.fields(tree, "", "the scenario", FIELDS, REQUIRED_FIELDS, (_NAMED,), elsewhere)
    _read_schema(reader, fields)
    profile, rules = read_era(reader, fields)
    scope.release = rules.release
    cluster = fields.read("cluster", lambda n, p: read_cluster(scope, n, p, rules, FIELDS), None)
    if cluster is None:
        return None
    topics = fields.read("topics", lambda n, p: read_topics(scope, n, p, cluster), {})
    workloads = fields.read("workloads", lambda n, p: read_workloads(scope, n, p), {})
    scope.workloads = workloads
    network = fields.read("network", lambda n, p: read_network(scope, n, p), NetworkSpec())
    timeline_node = fields.get("timeline")
    if timeline_node is not None:
        read_labels(scope, *timeline_node)
    timeline = () if timeline_node is None else read_timeline(scope, *timeline_node)
    scenario = Scenario(
        id=fields.read("id", lambda n, p: reader.slug(n, p, "`id`"), ""),
        title=fields.text("title", ""),
        variant=variant or fields.read("variant", lambda n, p: _read_variant(reader, n, p), None),
        question=fields.text("question", None),
        questions=fields.read("questions", lambda n, p: read_questions(scope, n, p), ()),
        sources=fields.read("sources", lambda n, p: _read_sources(reader, n, p), ()),
        lesson=fields.integer("lesson", None, min(LESSONS), max(LESSONS)),
        tags=fields.read("tags", lambda n, p: _read_tags(reader, n, p), ()),
        seed=fields.integer("seed", 1, 0, SEED_MAX),
        duration_us=fields.time("duration", 1, low=1),
        profile=profile,
        rules=rules,
        cluster=cluster,
        topics=marked(topics, timeline),
        network=network,
        workloads=workloads,
        timeline=timeline,
        expect=fields.read("expect", lambda n, p: read_expect(scope, n, p), Expect()),
    )
    lint(scenario, reader)
    return scenario


def _set_paths(tree: Mapping) -> dict[str, str]:
    """Return the nested form of each key that is a path such as `workloads.p1.config.acks`, as `--set` has it."""
    hints = {}
    for key, (_, value) in tree.entries.items():
        above, config, name = key.partition(".config.")  # Names below `config` contain dots.
        words = [*above.split("."), *(["config", name] if config else [])]
        if len(words) > 1 and words[0] in FIELDS:
            nested = shortened(value.text) if isinstance(value, Scalar) else "..."
            for word in reversed(words[1:]):
                nested = f"{{{word}: {nested}}}"
            hints[key] = f"write `{words[0]}: {nested}`"
    return hints


def _read_variant(reader: Reader, node: Node, path: str) -> str:
    if isinstance(node, Scalar):
        return reader.slug(node, path, "`variant`")
    reader.error(
        "E111",
        "`variant` must be a name, and only lock files have it",
        reader.places[path],
        path=path,
        suggestion="variants",
    )
    return ""


def _read_schema(reader: Reader, fields: Fields) -> None:
    found = fields.get("schema")
    if found is not None and isinstance(found[0], Scalar) and found[0].text != str(SCHEMA):
        reader.error(
            "E110", f"schema `{found[0].text[:20]}` is unknown", found[0].place, path="schema", label=f"write {SCHEMA}"
        )
    elif found is not None and not isinstance(found[0], Scalar):
        reader.error("E111", "`schema` must be a number", found[0].place, path="schema")


def _read_sources(reader: Reader, node: Node, path: str) -> tuple[Source, ...]:
    sources: list[Source] = []
    for item, item_path in reader.items(node, path, "`sources`"):
        fields = reader.fields(item, item_path, "a source", ("ref", "url", "recalled"), ("ref",))
        source = Source(fields.text("ref", ""), fields.text("url", None), fields.boolean("recalled", False))
        sources.append(source)
    return tuple(sources)


def _read_tags(reader: Reader, node: Node, path: str) -> tuple[str, ...]:
    return tuple(reader.slug(item, item_path, "a tag") for item, item_path in reader.items(node, path, "`tags`"))
