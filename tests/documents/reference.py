"""docs/reference, made from the code by `make reference`."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from types import ModuleType
from typing import Any, cast

from perfgate.catalogue import bases
from perfgate.fixtures.change_file import COMMANDS
from perfgate.fixtures.command_line import OPTIONS, PREFIX
from perfgate.fixtures.commands import COMMANDS as SUBCOMMANDS
from perfgate.fixtures.keys import INI, KEYS
from perfgate.judge import bounds_files, thresholds
from perfgate.model import declared, faults, judged
from perfgate.model.catalogue import family
from perfgate.model.changes import PATHS, SCOPES, not_of, read_value
from perfgate.model.compared import MAY_DECIDE
from perfgate.model.errors import ConfigurationError
from perfgate.model.loads import base
from perfgate.model.metrics import METRICS
from perfgate.model.system import SYSTEM_NAMES, SYSTEMS, System
from perfgate.model.usual import TIERS
from perfgate.systems.kafka.attached.described import KEYS as KAFKA_KEYS
from perfgate.systems.kafka.attached.java_settings import SETTINGS
from perfgate.systems.pulsar.attached.described import KEYS as PULSAR_KEYS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
WIDTH = 100
MADE = "<!-- Made from the code by `make reference`: change it there. -->\n"
DECLARED = (
    declared.Scenario,
    declared.Part,
    base.Load,
    declared.TopicSpec,
    declared.Payload,
    declared.Keys,
    declared.Consumers,
    declared.Crowd,
    declared.ClusterSpec,
    faults.FaultScenario,
    faults.Fault,
)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield a table's lines; a bar in a cell is no border."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(str(cell).replace('|', chr(92) + '|').strip() for cell in row)} |"
    yield ""


def said(text: str) -> str:
    """Return a paragraph in lines of the documents' width."""
    return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def in_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)).strip()


def notes_of(module: ModuleType, name: str) -> dict[str, str]:
    """Return what stands below each attribute of a class of the module."""
    tree = ast.parse(inspect.getsource(module))
    return notes_in(next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name))


def notes_in(declared_class: ast.ClassDef) -> dict[str, str]:
    """Return what stands below each attribute of this class."""
    body, found = declared_class.body, dict[str, str]()
    for stated, below in pairwise(body):
        target = stated.target if isinstance(stated, ast.AnnAssign) else None
        if isinstance(stated, ast.Assign):
            (target,) = cast(list[ast.Name], stated.targets)
        if isinstance(target, ast.Name) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[target.id] = in_one_line(str(below.value.value))
    return found


def command_line() -> Iterator[str]:
    """Yield the subcommands, each as its --help has it, and all options of the gate."""
    yield "# Command line\n"
    yield f"```text\n{_helps()['']}```\n"
    for name in SUBCOMMANDS:
        yield f"## {name}\n"
        yield f"```text\n{_helps()[name]}```\n"
    yield "## All options of the gate\n"
    yield f"The command has them as they stand here; pytest itself has each as `{PREFIX}NAME`.\n"
    rows = ((f"`{name}`", one.metavar, one.text) for name, one in OPTIONS.items())
    yield from table(("option", "value", "what it does"), rows)
    yield "## Keys of pytest.ini\n"
    yield said(
        f"`{INI} = true` loads the gate. A path is relative to the folder of pytest.ini, one of the command "
        "line to the working folder."
    )
    yield from table(("key", "what it states"), ((f"`{INI}_{name}`", text) for name, text in KEYS.items()))
    yield "## Tiers\n"
    tiers = TIERS.values()
    head = ("tier", "rounds", "window (s)", "warm-up of a round, at most (s)", "warm-up of brokers, at most (s)")
    yield from table(
        head, ((one.name, one.rounds, one.window_s, one.warmup_max_s, one.broker_warmup_s) for one in tiers)
    )


HELPS = """
import json
from click.testing import CliRunner
from perfgate.fixtures.commands import COMMANDS, group
from perfgate.model.command import PROGRAM
calls = {name: [*name.split(), "--help"] for name in ("", *COMMANDS)}
run = CliRunner().invoke
print(json.dumps({name: run(group, call, prog_name=PROGRAM, terminal_width=80).output for name, call in calls.items()}))
"""


@cache
def _helps() -> Mapping[str, str]:
    """Return what --help prints of each subcommand, at 80 columns, of a new process: a command keeps its first one."""
    done = subprocess.run([sys.executable, "-c", HELPS], cwd=ROOT, capture_output=True, text=True, check=True)
    return cast(Mapping[str, str], json.loads(done.stdout))


def scenario_fields() -> Iterator[str]:
    """Yield the fields of a scenario's declaration, and the paths that change them."""
    yield "# Fields of a scenario\n"
    yield said(
        "What a family's declaration states ([own scenarios](../own-scenarios.md)), and below the paths by which "
        "a family, a change file and `--set` change them."
    )
    yield "## family(...)\n"
    yield in_one_line(inspect.getdoc(family) or "") + "\n"
    yield f"```python\nfamily{inspect.signature(family)}\n```\n"
    yield "## Bases\n"
    yield said(
        "Names of `perfgate.catalogue.bases`, which a family of your own may vary; `replace(BASE, ...)` and "
        "`with_changes(BASE, [(PATH, VALUE), ...])` make others of them."
    )
    head = ("name", "partitions x replicas", "record (B)", "load", "producer", "consumers")
    yield from table(
        head, (_base(name, one) for name, one in vars(bases).items() if isinstance(one, declared.Scenario))
    )
    for kind in DECLARED:
        module = inspect.getmodule(kind)
        assert module is not None
        notes = notes_of(module, kind.__name__)
        inherited = {one.name for base_ in kind.__mro__[1:] if base_ in DECLARED for one in fields(base_)}
        yield f"## {kind.__name__}\n"
        yield in_one_line(inspect.getdoc(kind) or "") + "\n"
        yield from table(
            ("field", "type", "default", "meaning"),
            (
                (f"`{one.name}`", f"`{one.type}`", _default(one), notes.get(one.name, ""))
                for one in fields(kind)
                if one.name not in inherited
            ),
        )
    yield "## Paths\n"
    scopes = dict.fromkeys(scope for of in SCOPES.values() for scope in of)
    yield said(f"{', '.join(f'`{scope}.<setting>`' for scope in scopes)} take any setting of the system, and these:")
    yield from table(("path", "of", "legal"), ((f"`{path}`", _systems(path), _legal(path)) for path in PATHS))


def _base(name: str, one: declared.Scenario) -> tuple[str, ...]:
    topics = f"{one.topic.count} x " if one.topic.count > 1 else ""
    readers = one.consumers
    return (
        f"`{name}`",
        f"{topics}{one.topic.partitions} x {one.topic.replication_factor}",
        f"{one.record_bytes:,}",
        f"{one.load.kind}, {one.load.rate:,.0f}/s" if one.load.rate else one.load.kind,
        ", ".join(f"{key}={value}" for key, value in one.producer),
        f"{readers.membership}, {readers.processes * readers.threads}" if readers else "",
    )


def _default(field: Any) -> str:
    if field.default is MISSING:
        return "" if field.default_factory is MISSING else "`()`"
    value = field.default
    return f"`{type(value).__name__}()`" if type(value) in DECLARED else f"`{value!r}`"


def _systems(path: str) -> str:
    return ", ".join(SYSTEM_NAMES[system] for system in SYSTEMS if not not_of(system, path))


def _legal(path: str) -> str:
    """Return what is legal there, in the words in which a wrong value is refused."""
    return "; ".join(dict.fromkeys(_refused(path, system) for system in SYSTEMS if not not_of(system, path)))


def _refused(path: str, system: System) -> str:
    for wrong in ("-", "*", ()):
        try:
            read_value(path, wrong, system)
        except ConfigurationError as refused:
            words = in_one_line(str(refused)).rpartition("legal: ")[2].removeprefix(path).removeprefix(" =").strip()
            return words.replace(f"{wrong!r} ", "", 1).removeprefix("must be ").removeprefix("must ")
    raise AssertionError(f"{path} takes everything")


def files() -> Iterator[str]:
    """Yield the keys of target files and change files."""
    yield "# Files\n"
    yield said(
        "All are TOML, read strictly: an unknown key is an error that names the legal ones. Worked examples "
        "lie in [examples/targets](../../examples/targets/scram.toml) and [changes](../../changes/linger-5.toml)."
    )
    of_system: Mapping[System, Mapping[str, Mapping[str, str]]] = {"kafka": KAFKA_KEYS, "pulsar": PULSAR_KEYS}
    for system, keys in of_system.items():
        yield f"## Target file of {SYSTEM_NAMES[system]}\n"
        rows = [
            (f"`[{name}]`" if name else "", f"`{key}`", text) for name, own in keys.items() for key, text in own.items()
        ]
        yield from table(("table", "key", "meaning"), rows)
    yield "## relations.toml\n"
    yield said(
        "In the thresholds folder, where it goes before the shipped one, or in the folder of your own scenarios, where "
        "it stands beside it. A table `[<family>.<name>]` is a ratio of two scenarios, or holds over a range of them; "
        "`[<family>.<name>.shared_cores]` states what differs where brokers and clients share the cores."
    )
    for title, kind in (("Two scenarios", "_Pair"), ("A range", "_Range")):
        yield f"### {title}\n"
        yield from table(("key", "needed", "meaning"), _keys(bounds_files, kind))
    yield "## Thresholds file\n"
    yield said(
        "`thresholds/<profile>.toml`, written by `kafka-perf-gate baseline --accept`. `[profile]` states the facts of "
        "the runs that it is for, `[<scenario>]` a line for each metric; ratios.toml has `[default]` or `[<scenario>]` "
        "with `<metric> = { at_least = SHARE }` or `at_most` of a reference ([thresholds](../../thresholds/README.md))."
    )
    yield from table(("key of a metric", "needed", "meaning"), _keys(thresholds, "_Entry"))
    yield "## Prometheus\n"
    yield "`[prometheus]` is in [targets-prometheus.md](../targets-prometheus.md).\n"
    yield "## Change file\n"
    commands = ", ".join(f"`{one}`" for one in COMMANDS)
    yield said(
        "`name` says in a few words what changes. `pairs = true` starts a cluster of each side, and more of them. "
        "Every path of [a scenario](scenario-fields.md#paths) but those of `record` and `load` is a key of the table "
        f"of its first word. `[target] file` names another cluster. `[commands]` has {commands}."
    )


def _keys(module: ModuleType, kind: str) -> Iterator[tuple[str, str, str]]:
    notes = notes_of(module, kind)
    for one in fields(getattr(module, kind)):
        yield f"`{one.name}`", "yes" if one.default is MISSING else "", notes.get(one.name, "as above")


def client_settings() -> Iterator[str]:
    """Yield what becomes of each setting of a Java client."""
    yield "# Settings of Java clients\n"
    yield said(
        "What becomes of each setting in the file of a Java client that a target file names "
        "([client files](../client-files.md))."
    )
    rows = (
        (f"`{name}`", one.treatment.value + (f": {one.words}" if one.words and one.words != name else ""))
        for name, one in sorted(SETTINGS.items())
    )
    yield from table(("setting of a Java client", "what becomes of it"), rows)


def metrics() -> Iterator[str]:
    """Yield the metrics."""
    yield "# Metrics\n"
    yield said(
        "Each may have a threshold, a relation and a ratio to a reference. What decides a comparison unless "
        "`--on` says otherwise follows from the load: a rate where brokers are given as much as they take, "
        "the 99th percentile where records are due at times of their own."
    )
    rows = (
        (f"`{one.name}`", one.unit, one.better, "yes" if one.name in MAY_DECIDE else "", one.label)
        for one in METRICS.values()
    )
    yield from table(("metric", "unit", "better", "may be named by --on", "meaning"), rows)


def verdicts() -> Iterator[str]:
    """Yield the verdicts and exit codes."""
    yield "# Verdicts and exit codes\n"
    yield "Of several verdicts the worst counts: " + ", ".join(judged.SEVERITY) + ".\n"
    for title, kind in (("Verdicts of the gate", judged.Verdict), ("Effects of a comparison", judged.Effect)):
        yield f"## {title}\n"
        notes = notes_of(judged, kind.__name__)
        rows = ((one.value, _colour(one), notes[one.name]) for one in cast(Iterable[Any], kind))
        yield from table(("verdict", "colour", "meaning"), rows)
    yield "## Exit codes\n"
    notes = notes_of(judged, "ExitCode")
    yield from table(("code", "meaning"), ((int(code), notes[code.name]) for code in judged.ExitCode))
    yield "What a job makes of each is in [ci-results.md](../ci-results.md).\n"


def _colour(verdict: Any) -> str:
    return "green" if verdict.green else "red" if verdict.red else "neither"


def run_json() -> Iterator[str]:
    """Yield the parts of run.json."""
    schema = json.loads((ROOT / "docs" / "run.schema.json").read_text())
    yield "# run.json\n"
    yield said(
        "All figures of all rounds, and every verdict with its reasons; [its schema](../run.schema.json) is "
        "made from the types that write and read it. Readers skip keys that they do not know."
    )
    yield "## The document\n"
    notes = _all_notes()
    yield from table(("key", "type", "meaning"), _properties(schema, {**notes["RunFacts"], **notes["Document"]}))
    for name, stated in sorted(schema["$defs"].items()):
        if "properties" in stated:
            yield f"## {name}\n"
            if stated.get("description"):
                yield in_one_line(stated["description"]) + "\n"
            yield from table(("key", "type", "meaning"), _properties(stated, notes.get(name, {})))


def _all_notes() -> Mapping[str, Mapping[str, str]]:
    """Return what stands below each attribute, by the class's name, of all that run.json may be made of."""
    found: dict[str, dict[str, str]] = {}
    for path in ((ROOT / "perfgate" / "report" / "entries.py"), *(ROOT / "perfgate" / "model").rglob("*.py")):
        tree = ast.parse(path.read_text())
        found |= {node.name: notes_in(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    return found


def _properties(stated: Mapping[str, Any], notes: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name, one in stated["properties"].items():
        yield f"`{name}`", _type(one), in_one_line(one.get("description", "")) or notes.get(name, "")


def _type(one: Mapping[str, Any]) -> str:
    if "$ref" in one:
        name = one["$ref"].rpartition("/")[2]
        return f"[{name}](verdicts.md)" if name in ("Verdict", "Effect") else f"[{name}](#{name.lower()})"
    if "enum" in one:
        return ", ".join(f"`{value}`" for value in one["enum"])
    if "const" in one:
        return f"`{one['const']}`"
    if "anyOf" in one:
        return " or ".join(map(_type, one["anyOf"]))
    kind = one.get("type", "any")
    if kind == "array":
        return f"list of {_type(one['items'])}" if "items" in one else "list"
    values = one.get("additionalProperties")
    return f"object of {_type(values)}" if kind == "object" and isinstance(values, Mapping) else str(kind)


SAID = {
    "Refused": (
        "Nothing was started; exit code 2.",
        ("ConfigurationError", "NotSetError", "StartRefusedError"),
    ),
    "The target failed": (
        "The run ends, or goes on without the scenario. What brokers did is BROKEN or REGRESSED.",
        ("TargetError", "LimitReachedError", "InterferedError", "BrokersFailedError", "TopicRefusedError", "unable"),
    ),
    "A round does not count": (
        "The scenario is INVALID where too few others are left; what brokers did wrong is red.",
        ("Flaw", "of_generator", "of_brokers"),
    ),
}
"""What is said by a call of one of these, which takes its text first."""
LEAST_WORDS = 3
"""Below that a text is a frame for another's."""


def messages() -> Iterator[str]:
    """Yield the messages that a user can meet."""
    yield "# Messages\n"
    yield said(
        "What a run can say besides its verdicts, to be found by a search of this page; `…` stands for a name or a "
        "figure. Each says what to do; the heading is the part of the program that says it."
    )
    for title, (about, calls) in SAID.items():
        yield f"## {title}\n"
        yield said(about)
        for path in sorted((ROOT / "perfgate").rglob("*.py")):
            tree = _parsed(path)
            if texts := sorted({text for text in _said_by(tree, calls) if len(text.split()) >= LEAST_WORDS}):
                yield f"### {re.split(r'[.:;]', in_one_line(ast.get_docstring(tree) or path.stem))[0]}\n"
                yield from (f"- {text}" for text in texts)
                yield ""
    yield "## Reasons of verdicts\n"
    yield said("What stands below a verdict. Errors of a file of thresholds or relations are among them.")
    yield from (f"- {text}" for text in sorted({*reasons()}))
    yield ""


REASONS = 5
"""A text of the judge with as many words is one that a reason is made of."""


def reasons() -> Iterator[str]:
    """Yield what verdicts are reasoned with."""
    for path in sorted((ROOT / "perfgate" / "judge").rglob("*.py")):
        tree = _parsed(path)
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
        inner -= {id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)}
        for node in ast.walk(tree):
            text = isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
            if text and id(node) not in documented | inner and len((said_ := _escaped(node)).split()) >= REASONS:
                yield said_


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _calls(tree: ast.Module) -> list[tuple[str, ast.AST]]:
    """Return each call of a name: the name, and its first argument."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    return [(node.func.id, node.args[0]) for node in calls if isinstance(node.func, ast.Name)]


def _said_by(tree: ast.Module, calls: Sequence[str]) -> Iterator[str]:
    yield from (_escaped(text) for name, text in _calls(tree) if name in calls)


def _escaped(node: ast.AST) -> str:
    return in_one_line(re.sub(r"…+", "…", re.sub(r"([<>*_`])", r"\\\1", _template(node))))


def _template(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_template, node.values))
    return _template(node.left) + _template(node.right) if isinstance(node, ast.BinOp) else "…"


PAGES = {
    "client-settings.md": client_settings,
    "command-line.md": command_line,
    "scenario-fields.md": scenario_fields,
    "files.md": files,
    "metrics.md": metrics,
    "verdicts.md": verdicts,
    "run-json.md": run_json,
    "messages.md": messages,
}


def current(name: str) -> str:
    """Return a page as it should be now."""
    return "\n".join([MADE, *PAGES[name]()])


def main() -> None:
    """Write the pages."""
    ArgumentParser(prog="make reference", description=__doc__).parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        (FOLDER / name).write_text(current(name))


if __name__ == "__main__":
    main()
