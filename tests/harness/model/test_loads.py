"""Load kinds: the types that `Load(kind=...)` makes, and a kind that is one more file."""

import copy
import importlib
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from perfgate.fixtures.own_scenarios import load_own_scenarios
from perfgate.judge.claims.threshold import required
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.units_case import primary_metric
from perfgate.measure.assembly import measurement_of
from perfgate.measure.plan import at_most
from perfgate.model import Comparison, Consumers, Load, Scenario, Verdict, loads, with_changes
from perfgate.model.catalogue import family
from perfgate.model.errors import ConfigurationError
from perfgate.model.loads.backlog import Backlog
from perfgate.model.loads.capped import Capped
from perfgate.model.loads.paced import Paced
from perfgate.model.loads.ramp import Ramp
from perfgate.model.measured import Arm, Series
from perfgate.model.structured import adapter
from perfgate.report.entries import LoadEntry
from perfgate.report.results import recorded_measurement, scenario_entry
from tests.harness.build import measurement, profile, scenario, threshold
from tests.harness.run_gate import ROOT, gate_command

PACED = replace(scenario(), load=Load(kind="paced", rate=100))
BURSTY = '''
"""Bursty load: paced, and judged by what one record in a thousand waits."""

from dataclasses import dataclass
from typing import ClassVar

from perfgate.model.loads.base import Load


@dataclass(frozen=True, kw_only=True, slots=True)
class Bursty(Load):
    kind: str = "bursty"
    open_loop: ClassVar[bool] = True
    may_be_lowered: ClassVar[bool] = True
    counts_from: ClassVar[str] = "intended-send"
    decides: ClassVar[str] = "latency_ms.p999"
    readers_metric: ClassVar[str] = "end_to_end_latency_ms.p99"
'''
MINE = """
from dataclasses import replace
from perfgate.model import Load
from perfgate.model.catalogue import family
from perfgate.catalogue.bases import PACED
BASE = replace(PACED, name="bursty", load=Load(kind="bursty", rate=500))
FAMILIES = (family("bursts", "how many records come in bursts", base=BASE, varies="load.rate", smoke={SMOKE}),)
"""


@pytest.mark.parametrize("made", [Capped(rate=5), Paced(rate=5), Backlog(rate=5), Ramp(rate=5)])
def test_a_kind_is_a_type(made: Load) -> None:
    load = Load(kind=made.kind, rate=5)
    assert type(load) is type(made)
    assert load == made == replace(Load(kind="capped", rate=5), kind=made.kind)
    assert pickle.loads(pickle.dumps(load)) == copy.copy(load) == load  # noqa: S301 - its own
    assert hash(load) == hash(made)
    assert type(LoadEntry(kind=made.kind, latency_basis="none")) is LoadEntry


@pytest.mark.parametrize("folder", ["perfgate", "benchmarks"])
def test_no_caller_compares_the_name_of_a_kind(folder: str) -> None:
    compared = re.compile(r"\bload\.kind\b *(==|!=|in\b|not in\b)")
    for path in (ROOT / folder).rglob("*.py"):
        assert not compared.search(path.read_text()), path


def test_the_order_of_the_kinds_is_that_of_the_schema() -> None:
    assert list(loads.KINDS) == ["capped", "paced", "backlog", "ramp", "shaped"]


@pytest.mark.parametrize(
    ("load", "path", "words"),
    [
        (Capped(rate=5), "load.records", "its load is capped, not backlog"),
        (Backlog(records=5), "load.level-p99-ms", "its load is backlog, not ramp"),
        (Backlog(records=5), "load.rate", "it reads what is there, at no rate of its own"),
    ],
)
def test_a_field_that_a_kind_does_not_take_is_refused(load: Load, path: str, words: str) -> None:
    row = replace(scenario(), load=load)
    assert with_changes(row, [(path, 7)]) == row
    with pytest.raises(ConfigurationError, match=words):
        family("mine", "mine", base=row, varies=path, smoke={"mine-7": 7})


@pytest.fixture
def bursty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules_more: Callable[[ModuleType, Path], None]
) -> Iterator[Path]:
    """Put one more file, and nothing else, into the folder of the load kinds; give the folder that has it."""
    folder = tmp_path / "loads"
    folder.mkdir()
    (folder / "bursty.py").write_text(BURSTY)
    modules_more(loads, folder)
    importlib.invalidate_caches()
    loads.discover()
    adapter.cache_clear()  # type: ignore[attr-defined]
    yield folder
    monkeypatch.undo()
    sys.modules.pop("perfgate.model.loads.bursty")
    loads.discover()
    adapter.cache_clear()  # type: ignore[attr-defined]


def mine(folder: Path, smoke: dict[str, object]) -> Scenario:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(MINE.replace("{SMOKE}", repr(smoke)))
    (found,) = load_own_scenarios(folder).families
    return found.scenarios[0]


def test_a_kind_more_is_declared_and_checked(bursty: Path, tmp_path: Path) -> None:
    row = mine(tmp_path / "mine", {"bursty-300": 300})
    assert type(row.load).__name__ == "Bursty"
    assert with_changes(row, [("load.rate", 70)]).load == Load(kind="bursty", rate=70)
    assert with_changes(row, [("load.rate", "0.5 x knee")]) == row
    assert at_most(row, 100 * row.logged_bytes * row.topic.replication_factor).load.rate == 100
    with pytest.raises(ConfigurationError, match=r"load\.rate = -1 must be a number of records/s"):
        mine(tmp_path / "wrong", {"bursty-300": -1})


def test_without_its_file_the_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"load\.kind = 'bursty' Input should be 'capped', 'paced', 'backl"):
        mine(tmp_path / "mine", {"bursty-300": 300})


def test_a_kind_more_is_selected_and_listed(bursty: Path, tmp_path: Path) -> None:
    mine(tmp_path / "mine", {"bursty-300": 300})
    start = (
        "import sys, pytest, perfgate.model.loads as loads; "
        f"loads.__path__.append({str(bursty)!r}); loads.discover(); sys.exit(pytest.main(sys.argv[1:]))"
    )
    _, _, _, *arguments = gate_command(
        tmp_path / "results", "--list-scenarios", f"--scenarios={tmp_path / 'mine'}", "--family=bursts"
    )
    done = subprocess.run([sys.executable, "-c", start, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  bursty-300 " in done.stdout


def test_a_kind_more_is_measured_judged_and_recorded(bursty: Path) -> None:
    row = replace(scenario(), load=Load(kind="bursty", rate=300), consumers=Consumers(membership="group"))
    assert required(row)[:2] == (("latency_ms.p999",), ("end_to_end_latency_ms.p99",))
    driver: Any = SimpleNamespace(latency_basis=lambda load: load.counts_from, by_hand=lambda _: "")
    rounds = tuple(
        replace(r, metrics={**r.metrics, "latency_ms.p999": 20.0, "end_to_end_latency_ms.p99": 9.0})
        for r in measurement([300.0] * 4).rounds
    )
    measured = measurement_of(driver, Series(Arm(scenario=row), rounds=list(rounds)))
    held = profile(threshold("latency_ms.p999", 10.0, 0.5), threshold("end_to_end_latency_ms.p99", 9.0))
    outcome = judge_scenario(measured, held)
    assert outcome.verdict is Verdict.REGRESSED
    compared = cast("Comparison", SimpleNamespace(scenario=row, sides=(measured, measured)))
    assert primary_metric(compared).name == "latency_ms.p999"
    entry = scenario_entry(measured, outcome)
    assert entry["load"] == {
        "kind": "bursty",
        "rate": 300,
        "records": 0,
        "probes": False,
        "times_out": False,
        "share_of_knee": 0.0,
        "level_p99_ms": 0.0,
        "knee": "",
        "shape": None,
        "latency_basis": "intended-send",
    }
    assert recorded_measurement(entry).scenario.load == row.load
