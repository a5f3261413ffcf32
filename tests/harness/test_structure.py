"""The rule of imports, over every file; and that a scenario file stays declarative."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from perfgate.fixtures.plugin import MODULES

ROOT = Path(__file__).parents[2]
ROOMS: Mapping[str, set[str]] = {
    "model": set(),
    "host": {"model"},
    "load": {"model", "host"},
    "metrics": {"model", "host"},
    "faults": {"model"},
    "workloads": {"model"},
    "measure": {"model", "load", "metrics", "faults"},
    "judge": {"model", "faults"},
    "report": {"model", "host", "judge", "faults", "catalogue"},
    "systems": {"model", "host", "load", "metrics"},
    "catalogue": {"model"},
}
"""What each room of perfgate/ may import of the others; fixtures, pytest's side, may import them all."""
WIRING = {
    "wiring_attached",
    "wiring_kafka",
    "wiring_pulsar",
    "system_settings",
    "command_line",
    "options",
    "run_config",
    "change_file",
    "own_scenarios",
    "workload",
    "doctor",
}
"""Of pytest's side, what may import systems: what makes one, and what reads options, files and topics of one."""
CLIENTS = {"confluent_kafka", "testcontainers"}
"""What talks with a system under test. The facts of this machine name the client's version, too."""
MOST_LINES = 500
SYSTEMS = {path.name for path in (ROOT / "perfgate" / "systems").iterdir() if (path / "managed").is_dir()}
TESTING = {"pytest", "_pytest", "allure"}


def imports(text: str) -> Iterator[str]:
    """Return every module that is imported, at whichever place of the file."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            assert node.module
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def of_another_system(place: list[str], name: list[str]) -> bool:
    """Whether a module of one system imports another's, or one that systems share imports any; by_file chooses."""
    own = place[0] if place and place[0] in SYSTEMS else ""
    named = name[1] if len(name) > 1 and name[0] == "systems" and name[1] in SYSTEMS else ""
    return bool(named) and named != own and place != ["by_file"]


def against_the_rule(place: str, text: str) -> list[str]:
    """Return what a module at this place ("perfgate/judge/claim.py") may not import and does."""
    top, *rest = Path(place).with_suffix("").parts
    found = []
    for name in imports(text):
        package, *inner = name.split(".")
        if top == "perfgate" and len(rest) > 1 and rest[0] in ROOMS:
            room = rest[0]
            wrong = (
                (package == "perfgate" and inner and inner[0] != room and inner[0] not in ROOMS[room])
                or package == "tests"
                or (package in TESTING and (room, package) != ("report", "allure"))
                or (package in CLIENTS and room not in ("systems", "host"))
                or (room == "systems" and of_another_system(rest[1:], inner))
            )
        else:
            wrong = (
                package == "perfgate" and inner[:1] == ["systems"] and rest[-1] not in WIRING
            ) or package == "tests"
        if wrong:
            found.append(name)
    return found


@pytest.mark.parametrize(
    "path",
    sorted([*(ROOT / "perfgate").rglob("*.py")]),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_module_keeps_the_rule(path: Path) -> None:
    assert not against_the_rule(str(path.relative_to(ROOT)), path.read_text())


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("perfgate/report/terminal.py", "from perfgate.systems.kafka.attached.external import ExternalTarget"),
        ("perfgate/report/terminal.py", "def late():\n    import perfgate.systems.kafka.java"),
        ("perfgate/measure/rounds.py", "from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver"),
        ("perfgate/measure/rounds.py", "from perfgate.judge.noise import disturbed"),
        ("perfgate/judge/claim.py", "from confluent_kafka import Producer"),
        ("perfgate/judge/wording.py", "from perfgate.report.terminal import duration"),
        ("perfgate/model/target.py", "from perfgate.measure.plan import at_most"),
        ("perfgate/systems/kafka/java.py", "from perfgate.fixtures.options import RunConfig"),
        ("perfgate/load/schedule.py", "import pytest"),
        ("perfgate/systems/pulsar/jars.py", "from perfgate.systems.kafka.java import jars_of"),
        ("perfgate/systems/attached/target.py", "from perfgate.systems.pulsar.client.admin import Admin"),
        ("perfgate/fixtures/gate.py", "from perfgate.systems.kafka.client.topics import Topics"),
    ],
)
def test_the_rule_is_seen_broken(place: str, line: str) -> None:
    assert against_the_rule(place, line)


def in_a_loop(rooms: Mapping[str, set[str]]) -> set[str]:
    """Return the rooms that no order can put after all that they import."""
    done: set[str] = set()
    while ready := [room for room, needed in rooms.items() if room not in done and needed <= done]:
        done.update(ready)
    return set(rooms) - done


def test_no_loop_between_rooms() -> None:
    assert not in_a_loop(ROOMS)
    assert in_a_loop({**ROOMS, "load": {"model", "metrics"}, "metrics": {"load"}}) >= {"load", "metrics"}


def test_no_module_is_long() -> None:
    """Past this length a module needs a reason, or holds a second idea that wants a module of its own."""
    declarations = ROOT / "perfgate" / "catalogue" / "kafka.py"  # one list, to be read from its top to its end
    for path in (ROOT / "perfgate").rglob("*.py"):
        assert path == declarations or len(path.read_text().splitlines()) <= MOST_LINES, path


DISCOVERED = ("perfgate/faults/", "perfgate/model/loads/", "perfgate/judge/claims/", "perfgate/judge/guards/")
"""Folders whose modules are found by their place."""
CLIENTS_PLACE = r"perfgate/systems/[a-z]+/load/clients\.py"
"""What a generator process loads by the name of the system."""


def test_every_module_is_used() -> None:
    """A module that moved into another one came back with an older change, beside the one that was used."""
    paths = [*(ROOT / "perfgate").rglob("*.py")]
    others = [
        *(ROOT / name for name in ("pyproject.toml", "Makefile", "CONTRIBUTING.md")),
        *(ROOT / "tests" / "scenarios").glob("*.py"),
    ]
    texts = {path: path.read_text() for path in (*paths, *others)}
    used = {name for path, text in texts.items() if path.suffix == ".py" for name in imports(text)}
    used |= {f"perfgate.fixtures.{name}" for name in MODULES}
    for path in paths:
        place = str(path.relative_to(ROOT))
        name = place.removesuffix(".py").replace("/", ".")
        by_place = place.startswith(DISCOVERED) or re.fullmatch(CLIENTS_PLACE, place)
        if path.name not in ("__init__.py", "__main__.py") and not by_place and name not in used:
            assert any(name in text for other, text in texts.items() if other != path), name


def test_the_module_whose_mutants_are_made_is_there() -> None:
    """It had moved into another one, and the command of CONTRIBUTING.md ended in an error."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["cosmic-ray"]
    assert (ROOT / stated["module-path"]).is_file()
    assert (ROOT / stated["test-command"].split()[-1]).is_file()


def test_no_module_gives_a_name_twice() -> None:
    """Two modules that became one had a constant of the same name: the second one's value held for both."""
    for path in (ROOT / "perfgate").rglob("*.py"):
        names = list[str]()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign):
                targets = [inner for target in node.targets for inner in ast.walk(target)]
                names += [one.id for one in targets if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.append(node.target.id)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
        assert not [name for name in names if names.count(name) > 1], path


@pytest.mark.parametrize(
    ("module", "mark"),
    [
        ("perfgate/judge/claim.py", r"def judge\("),
        ("perfgate/judge/claim.py", r"class Ruling\b"),
        ("perfgate/model/judged.py", r"SEVERITY\.index\("),
        ("perfgate/measure/runner.py", r"def measured_round\("),
        ("perfgate/host/journal.py", r"class LockedFolder\b"),
    ],
    ids=["one judge", "one kind of ruling", "one order of severities", "one measuring loop", "one journal of undoing"],
)
def test_there_is_one(module: str, mark: str) -> None:
    paths = [*(ROOT / "perfgate").rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in paths if re.search(mark, path.read_text())}
    assert found == {module}


def test_every_folder_is_a_room() -> None:
    inside = {path.name for path in (ROOT / "perfgate").iterdir() if path.name != "__pycache__"}
    assert inside == {"__init__.py", "__main__.py", "py.typed", "fixtures", *ROOMS}, "and no module lies beside them"


def test_the_tests_have_the_same_rooms() -> None:
    folders = {path.parent.name for path in (ROOT / "tests" / "harness").glob("*/test_*.py")}
    assert folders <= {*ROOMS, "fixtures", "live", "attack", "corpus"}


def test_scenario_bodies_have_no_logic_of_their_own() -> None:
    forbidden = (ast.For, ast.While, ast.If, ast.Try, ast.With, ast.IfExp)
    for path in (ROOT / "tests" / "scenarios").glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, forbidden), f"{path}: line {getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.FunctionDef):
                assert len(node.body) <= 4, f"{path}: {node.name}"


def test_no_fixed_port_and_no_hidden_environment_read_in_scenarios() -> None:
    for path in (ROOT / "perfgate" / "catalogue").glob("*.py"):
        assert "os" not in imports(path.read_text())
