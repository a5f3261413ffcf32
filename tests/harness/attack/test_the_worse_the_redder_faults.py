"""The law over faults, endurance and ramps: as brokers get worse a verdict never gets better, whatever the load was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.faults.time import GROWN
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import Finished, unmeasured
from perfgate.measure.ramp import UNKNOWN, known_after, ramp_round
from perfgate.model import METRICS, FaultScenario, Measurement, Profile, Round, Scenario, Verdict, with_changes
from perfgate.model.faults import LATE, but_outages
from perfgate.model.flaw import Doubt
from perfgate.model.load import FAILED
from tests.harness.attack.test_what_excuses_a_knee import late
from tests.harness.build import flawed, profile, threshold
from tests.harness.build.faults import faulty, history, one_fault
from tests.harness.build.knee import RAMP, brokers
from tests.harness.measure.test_growth import going_on, taken

TIMES = (1, 2, 4, 20, 100)
SURE = 20
ENDS_S = 28.0
"""What takes longer has not ended when the load does."""


def severity(verdict: Verdict) -> int:
    return 2 if verdict.red else 0 if verdict.green else 1


def never_gets_better(verdicts: Sequence[Verdict], *, sound: bool, bounded: bool = False) -> None:
    """Hold the law; where nothing was wrong with the load it is red from SURE times on.

    And at the most times, which no flaw comes near that is `bounded`: that explains some seconds, or single figures.
    """
    found = [severity(verdict) for verdict in verdicts]
    assert found == sorted(found), verdicts
    assert verdicts[-1].red or not bounded, verdicts
    if sound:
        assert all(verdict.red for times, verdict in zip(TIMES, verdicts, strict=True) if times >= SURE), verdicts


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What a round would show of sound brokers, and what was wrong with it."""

    outage_s: float
    recovery_s: float
    before_ms: float
    after_ms: float
    grown: float
    flaws: tuple[Doubt, ...] = ()
    spoilt: tuple[Doubt, ...] = ()
    pauses_s: float = 0.0
    late_s: float = 0.0
    measured: bool = True
    without: tuple[str, ...] = ()

    @property
    def bounded(self) -> bool:
        """Whether what was wrong with it leaves outages and memory to be judged."""
        return self.measured and not any(doubt.factor is None and not doubt.metrics for doubt in self.flaws)

    @property
    def sound(self) -> bool:
        wrong = self.flaws or self.spoilt or self.pauses_s or self.late_s or self.without
        return self.measured and not wrong


FLAWS = (
    *((doubt,) for doubt in (Doubt(kind=FAILED, whose="brokers", text="records skipped"),)),
    (Doubt(kind="flaw", whose="unknown", text="an older recording", factor=None),),
    but_outages("full buffer", "brokers", "buffers were full"),
    but_outages(LATE, "load", "late before the fault", 1.5),
    but_outages("clocks", "machine", "a clock stepped", 0.25),
)
SPOILT = tuple(
    Doubt(kind=LATE, whose="load", text="sent late", factor=factor, offset=offset, metrics=(f"latency_{phase}_ms",))
    for phase in ("before", "after")
    for factor, offset in ((None, 0.0), (1.0, 20.0))
)
LACKING = ("receive_outage_s.max", "latency_after_ms.p99", "latency_before_ms.p99", "p99_growth")


@st.composite
def drawn_rounds(draw: st.DrawFn) -> tuple[Drawn, ...]:
    flawed = draw(st.booleans())

    def one() -> Drawn:
        wrong: dict[str, Any] = {}
        if flawed and draw(st.booleans()):
            wrong = {
                "flaws": draw(st.sampled_from(((), *FLAWS))),
                "spoilt": draw(st.sampled_from(((), *((doubt,) for doubt in SPOILT)))),
                "pauses_s": draw(st.sampled_from([0.0, 0.06, 0.3, 1.7])),
                "late_s": draw(st.sampled_from([0.0, 0.3, 2.5])),
                "measured": draw(st.booleans()),
                "without": draw(st.sampled_from(((), *((name,) for name in LACKING)))),
            }
        return Drawn(
            outage_s=draw(st.floats(0.5, 3.0)),
            recovery_s=draw(st.floats(1.5, 9.0)),
            before_ms=draw(st.floats(2.0, 30.0)),
            after_ms=draw(st.floats(8.0, 12.0)),
            grown=draw(st.floats(0.9, 1.2)),
            **wrong,
        )

    return tuple(one() for _ in range(draw(st.integers(1, 5))))


@cache
def lasting() -> FaultScenario:
    """Return the row of a load that goes on for long."""
    row = taken(going_on()).scenario
    assert isinstance(row, FaultScenario)
    return row


@cache
def well(kind: str) -> Round:
    """Return a round of this fault in which all is as it should be."""
    return one_fault(going_on() if kind == "time" else history(down=False))


def worse(index: int, drawn: Drawn, times: float, kind: str) -> Round:
    """Return the round of brokers that are so many times as bad."""
    if not drawn.measured:
        return unmeasured(index, "the generator ended")
    sound, recovery_s = well(kind), drawn.recovery_s * times
    until = {name: recovery_s for name in ("recovery_s", "rate_recovery_s") if recovery_s < ENDS_S}
    metrics = {
        **{name: value for name, value in sound.metrics.items() if name not in ("recovery_s", "rate_recovery_s")},
        **until,
        "outage_s.max": drawn.outage_s * times,
        "receive_outage_s.max": drawn.outage_s * times,
        "latency_before_ms.p99": drawn.before_ms * times,
        "latency_after_ms.p99": drawn.after_ms * times,
        "outage_resolution_s": drawn.pauses_s,
        "late_sends_s": drawn.late_s,
    }
    if kind == "time":
        metrics |= {"outage_s.max": 0.1, "receive_outage_s.max": 0.1, "latency_before_ms.p99": drawn.before_ms}
        metrics |= {"recovery_s": 1.0, "rate_recovery_s": 1.0, **dict.fromkeys(GROWN, drawn.grown * times)}
    return flawed(
        sound,
        index=index,
        metrics={name: value for name, value in metrics.items() if name not in drawn.without},
        invalid=tuple(dict.fromkeys(doubt.text for doubt in drawn.flaws)),
        invalid_metrics={metric: doubt.text for doubt in drawn.spoilt for metric in doubt.metrics},
        doubts=(*drawn.flaws, *drawn.spoilt),
    )


def of(row: FaultScenario, drawn: Sequence[Drawn], times: float) -> Measurement:
    rounds = tuple(worse(index, one, times, row.fault.kind) for index, one in enumerate(drawn, 1))
    return Measurement(scenario=row, rounds=rounds, rtt_ms={})


BASELINES: Mapping[str, float] = {
    "outage_s.max": 2.0,
    "receive_outage_s.max": 2.0,
    "recovery_s": 5.0,
    "latency_before_ms.p99": 15.0,
    "latency_after_ms.p99": 10.0,
}


@st.composite
def stored(draw: st.DrawFn, baselines: Mapping[str, float]) -> Profile | None:
    """Draw thresholds; runs that scatter make some of them wider, none so wide that 20 times would be chance."""
    names = draw(st.lists(st.sampled_from(sorted(baselines)), unique=True))
    spread = draw(st.sampled_from([0.0, 0.05, 0.3]))
    found = [
        replace(threshold(name, baselines[name], 0.5, name="kill-leader"), spread=spread, runs=10) for name in names
    ]
    return profile(*found) if found else None


@given(drawn=drawn_rounds(), held=stored(BASELINES), kind=st.sampled_from(["stop-leader", "rolling-restart", "return"]))
@settings(max_examples=300, deadline=None)
def test_the_longer_an_outage_the_redder(drawn: tuple[Drawn, ...], held: Profile | None, kind: str) -> None:
    row = faulty(kind=kind)
    verdicts = [judge_scenario(of(row, drawn, times), held).verdict for times in TIMES]
    sound, bounded = all(one.sound for one in drawn), any(one.bounded for one in drawn)
    never_gets_better(verdicts, sound=sound, bounded=bounded)


@given(drawn=drawn_rounds(), held=stored(dict.fromkeys(GROWN, 1.0)))
@settings(max_examples=200, deadline=None)
def test_the_more_a_figure_grows_with_time_the_redder(drawn: tuple[Drawn, ...], held: Profile | None) -> None:
    verdicts = [judge_scenario(of(lasting(), drawn, times), held).verdict for times in TIMES]
    sound, bounded = all(one.sound for one in drawn), any(one.bounded for one in drawn)
    never_gets_better(verdicts, sound=sound, bounded=bounded)


@given(drawn=drawn_rounds())
def test_rounds_of_an_unchanged_system_are_not_red(drawn: tuple[Drawn, ...]) -> None:
    """Whatever was wrong with their load: figures at their baselines are within every limit."""
    held = profile(*(threshold(name, value, 0.5, name="kill-leader") for name, value in BASELINES.items()))
    usual = [replace(one, outage_s=2.0, recovery_s=5.0, before_ms=15.0, after_ms=10.0, grown=1.0) for one in drawn]
    assert not judge_scenario(of(faulty(kind="stop-leader"), usual, 1), held).verdict.red


KNEE = 30_000.0
HELD = profile(
    threshold("knee_records_per_s", KNEE, name="knee"), threshold("unloaded_latency_ms.p99", 2.0, 0.5, name="knee")
)
STATED = with_changes(RAMP, [("load.level-p99-ms", 20.0)])
SLOW = late(150.0, 145.0)


def a_ramp(knee: float, late_from: float, late_to: float, beyond: Round, rows: int, row: Scenario) -> Verdict:
    """Return the verdict over rounds of brokers of this knee, with a generator that is late between two rates."""

    def measure(step_row: Scenario, doing: str) -> Finished:
        found: Finished = brokers(knee)(step_row, doing)
        if late_from < step_row.load.rate <= late_to:
            return Finished(round=beyond, repeatable=True) if found.round.metrics["latency_ms.p99"] > 20 else found
        return found

    rounds, known = [], UNKNOWN
    for index in range(1, rows + 1):
        rounds.append(ramp_round(measure, row, index, known, own_brokers=True).round)
        known = known_after(rounds[-1], known)
    return judge_scenario(Measurement(scenario=row, rounds=tuple(rounds), rtt_ms={}), HELD).verdict


@given(
    late_from=st.sampled_from([0.0, 1400.0, 5000.0, 14_000.0, 1e9]),
    wide=st.sampled_from([1.5, 2.5, 1e6]),
    beyond=st.sampled_from([SLOW, late(150.0, 12.0), late(150.0, 145.0, not_sustained="the brokers took half")]),
    rows=st.integers(2, 4),
    row=st.sampled_from([RAMP, STATED]),
)
@settings(max_examples=60, deadline=None)
def test_the_lower_a_knee_the_redder(late_from: float, wide: float, beyond: Round, rows: int, row: Scenario) -> None:
    """The generator is late just where brokers are slow, which is when they leave it no processor."""
    verdicts = [a_ramp(KNEE / times, late_from, late_from * wide, beyond, rows, row) for times in TIMES]
    never_gets_better(verdicts, sound=late_from == 1e9)


@pytest.mark.parametrize("name", [*BASELINES, *GROWN])
def test_what_the_law_is_held_for_has_a_direction(name: str) -> None:
    assert METRICS[name].better == "lower"
