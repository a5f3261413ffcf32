"""A fault is one file: one in a folder of its own is declared, done to brokers, judged, and shown in every report."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from perfgate import faults
from perfgate.judge.scenario_case import judge_scenario
from perfgate.load.history import OUTCOME, RECEIPT, SEND, Rows, outcomes_path, sends_path
from perfgate.measure.faults.fault_round import fault_round
from perfgate.model import FAULTS, Fault, FaultScenario, Load, Measurement, TopicSpec, Verdict, settings
from perfgate.model.errors import ConfigurationError
from perfgate.model.target import State
from perfgate.report.plots import fault_timeline_figure
from perfgate.report.results import recorded_measurement, scenario_entry
from perfgate.report.schema import schema_text
from perfgate.report.terminal_tables import FAULT_COLUMNS, fault_rows, kind_notes
from perfgate.systems.attached.command_faults import lacking
from tests.harness.build import scenario
from tests.harness.build.clock import Clock
from tests.harness.build.generators import SPEC

FILE = '''
"""blink: the broker that leads the first partition stands still twice, and goes on."""

from perfgate.model.faults import Expectation, FaultKind


def _act(scene):
    broker = scene.leader()
    for _ in range(2):
        scene.do("pause", broker)
        scene.hold()
        scene.do("resume", broker)
        scene.hold(5.0)


FAULT = FaultKind(
    name="blink",
    act=_act,
    sending=lambda case: Expectation(0.0, case.hold + 1, f"it stands still for {case.hold:g} s at a time"),
    commands=("pause", "resume"),
    meanwhile="blinking",
    note=lambda figures: f"blinked for {figures.number(figures.value('outage_s.max'))} s",
)
'''
RATE, PARTITIONS, LATENCY = 200.0, 2, 0.004
REPLICAS = ((1, 2, 3), (2, 3, 1))


@pytest.fixture(autouse=True)
def blink(tmp_path: Path, modules_more: Callable[[ModuleType, Path], None]) -> Iterator[None]:
    (tmp_path / "blink.py").write_text(FILE)
    modules_more(faults, tmp_path)
    yield
    sys.modules.pop("perfgate.faults.blink", None)


class Cluster:
    """Three brokers, the first of which may be paused, the load on them and its engine, on one clock.

    `late_s`: how much longer it stands still than it was to.
    """

    def __init__(self, clock: Clock, late_s: float) -> None:
        self.clock, self.late_s, self.pauses, self.phases = clock, late_s, list[list[float]](), set[str]()
        self.dedicated, self.allowed, self.hosts, self.topic, self.faults = True, (), (), "t", self
        self.cpu = self.memory = ()
        self.last = State(at=0.0, leaders=(1, 2), in_sync=REPLICAS, replicas=REPLICAS, brokers=(1, 2, 3))
        self.states = [self.last]
        self.start = self.end = 0.0

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def watch(self, *_: object) -> "Cluster":
        return self

    def check(self) -> None:
        pass

    def do(self, action: str, node: int, _meanwhile: object) -> None:
        assert node == 1
        if action == "pause":
            self.pauses.append([self.clock.now, np.inf])
        else:
            self.pauses[-1][1] = self.clock.now + self.late_s

    def session_s(self) -> None:
        return None

    def changes(self, _topic: str) -> None:
        return None

    def journaled(self, _spec: object, folder: Path, _observer: object) -> "Cluster":
        self.folder = folder
        folder.mkdir()
        return self

    def begin(self) -> None:
        self.start = self.clock.now

    def follow_until(self, moment: float, phase: str) -> None:
        self.clock.now = max(self.clock.now, moment)
        self.phases.add(phase)

    def collect(self) -> None:
        for path, rows in ((sends_path(self.folder, 0), self.sends()), (outcomes_path(self.folder, 0), self.taken())):
            path.write_bytes(rows.tobytes())

    def finish(self) -> list[Any]:
        self.end = self.clock.now
        self.collect()
        return []

    def sends(self) -> Rows:
        sequence = np.arange(int(((self.end or self.clock.now) - self.start) * RATE))
        rows = np.zeros(len(sequence), SEND)
        rows["at"], rows["first"] = self.start + sequence / RATE, sequence
        rows["count"], rows["partition"] = 1, sequence % PARTITIONS
        return rows

    def taken(self) -> Rows:
        sends = self.sends()
        rows = np.zeros(len(sends), OUTCOME)
        rows["sequence"], rows["partition"] = sends["first"], sends["partition"]
        rows["offset"], rows["at"] = sends["first"] // PARTITIONS, sends["at"] + LATENCY
        for begin, end in self.pauses:
            waits = (rows["partition"] == 0) & (rows["at"] >= begin) & (rows["at"] < end)
            rows["at"][waits] = end
        return rows

    def end_offsets(self, _topic: str, partitions: int) -> list[int]:
        return [int((self.sends()["partition"] == number).sum()) for number in range(partitions)]

    def read_everything(self, *_: object) -> Rows:
        taken = self.taken()
        rows = np.zeros(len(taken), RECEIPT)
        for name in ("at", "sequence", "offset", "partition"):
            rows[name] = taken[name]
        return rows


def measured(late_s: float, tmp_path: Path, clock: Clock) -> tuple[Measurement, Cluster]:
    row = FaultScenario.of(
        replace(
            scenario("blink"),
            topic=TopicSpec(partitions=PARTITIONS, replication_factor=3),
            producer=settings({"acks": "all", "enable.idempotence": "true"}),
            load=Load(kind="paced", rate=RATE),
        ),
        Fault(kind="blink", hold_s=2.0),
    )
    cluster: Any = Cluster(clock, late_s)
    spec = replace(SPEC, scenario=row)
    found = fault_round(row, cluster, cluster, cluster, spec, 1, Mock(), cluster, tmp_path)
    return Measurement(scenario=row, rounds=(found,), rtt_ms={}), cluster


@pytest.mark.parametrize(("late_s", "verdict"), [(0.0, Verdict.PASS), (0.9, Verdict.PASS), (2.0, Verdict.REGRESSED)])
def test_a_fault_in_one_file_goes_all_the_way(late_s: float, verdict: Verdict, tmp_path: Path, clock: Clock) -> None:
    taken, cluster = measured(late_s, tmp_path, clock)
    assert "blinking" in cluster.phases
    assert len(cluster.pauses) == 2
    accounting = taken.rounds[0].accounting
    assert accounting.offset_delta == accounting.acked == len(cluster.sends())
    assert taken.rounds[0].metrics["outage_s.max"] == pytest.approx(2.0 + late_s, abs=0.05)

    outcome = judge_scenario(taken, None)
    assert outcome.verdict is verdict, outcome.reasons
    if verdict is Verdict.REGRESSED:
        assert "expected at most 3.0 s: it stands still for 2 s at a time" in outcome.reasons[0]

    outcomes, measurements = {"blink": outcome}, {"blink": taken}
    (cells,) = fault_rows(outcomes, measurements)
    shown = dict(zip(FAULT_COLUMNS, cells, strict=True))
    assert (shown["outage s"], shown["expected"]) == (f"{2.0 + late_s:.1f}", "0.0..3.0")
    assert (shown["lost"], shown["verdict"]) == ("0", verdict.value)
    (note,) = kind_notes(measurements)
    assert note == f"note: blink: blinked for {taken.rounds[0].metrics['outage_s.max']:.3g} s"
    failover = taken.rounds[0].failover
    assert failover is not None
    marks = [text.get_text() for text in fault_timeline_figure("blink", failover).axes[0].texts]
    assert marks == 2 * ["pause broker 1", "resume broker 1"]
    entry = json.loads(json.dumps(scenario_entry(taken, outcome)))
    assert recorded_measurement(entry).scenario == taken.scenario
    assert '"blink"' in schema_text()


def test_real_brokers_need_the_commands_that_it_names() -> None:
    assert lacking("blink", {"pause": "p {broker}", "resume": "r {broker}"}, {}) is None
    assert lacking("blink", {}, {}) == "no fault command: the target file states no [faults] pause and resume"


def test_without_its_file_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "blink" in FAULTS
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match="unknown fault 'blink'"):
        Fault(kind="blink")
