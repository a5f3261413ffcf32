"""One round of seven whose records were sent 1.04 ms late made a p99 of 20 ms INVALID, its scenario and its relations.

Lateness is part of a latency, which begins when the record was due: what keeps its limit with it keeps it without.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.phrases import number
from perfgate.judge.scenario_case import judge_scenario
from perfgate.model import Load, Measurement, Verdict
from perfgate.model.compared import SATURATED, SENT_LATE
from perfgate.model.flaw import EVERYTHING, Flaw, Part
from perfgate.model.summary import metric_value
from perfgate.report.terminal import not_valid_notes, scenario_rows
from tests.harness.build import measurement, profile, relation, threshold

P99 = "latency_ms.p99"
HELD = {"records_per_s": 500.0, "broker_cpu_us_per_record": 50.0, P99: 20.0}
LATE = Flaw("sent late", kind=SENT_LATE, metrics=("latency_ms",), explains=(Part(offset=2.0, metrics=(P99,)),))


def waited(p99_ms: float, *flaws: Flaw, name: str = "batch-1k") -> Measurement:
    """Return five rounds of a paced load, of which the last has these flaws."""
    found = measurement([500.0] * 5, name)
    rounds = [replace(r, metrics={**r.metrics, P99: p99_ms}) for r in found.rounds]
    rounds[-1] = replace(rounds[-1], flaws=flaws)
    row = replace(found.scenario, load=Load(kind="paced", rate=500))
    return replace(found, scenario=row, rounds=tuple(rounds))


def verdict(found: Measurement) -> Verdict:
    return judge_scenario(found, profile(*(threshold(name, value, 0.1) for name, value in HELD.items()))).verdict


@pytest.mark.parametrize(
    ("p99_ms", "flaw", "expected"),
    [
        (20.5, LATE, Verdict.PASS),
        (22.5, LATE, Verdict.REGRESSED),
        (20.5, replace(LATE, kind=SATURATED), Verdict.INVALID),
        (20.5, replace(LATE, explains=EVERYTHING), Verdict.INVALID),
        (20.5, replace(LATE, metrics=()), Verdict.INVALID),
        (20.5, replace(LATE, explains=(Part(offset=21.0, metrics=(P99,)),)), Verdict.INVALID),
    ],
    ids=["kept", "beyond it", "less was sent", "nothing is known", "the round", "much later"],
)
def test_a_latency_that_keeps_its_limit_with_what_late_sends_added_is_green(
    p99_ms: float, flaw: Flaw, expected: Verdict
) -> None:
    assert verdict(waited(p99_ms, flaw)) is expected


def test_what_late_sends_may_explain_stays_undecided() -> None:
    found = waited(22.5, LATE)
    assert verdict(replace(found, rounds=tuple(replace(r, flaws=(LATE,)) for r in found.rounds))) is Verdict.INVALID


@pytest.mark.parametrize(("late", "expected"), [(1, Verdict.PASS), (2, Verdict.INVALID), (5, Verdict.INVALID)])
def test_records_that_come_together_in_many_rounds_are_another_load(late: int, expected: Verdict) -> None:
    """Brokers with half as many requests may wait less than by the schedule: all rounds late were green."""
    found = waited(20.5)
    rounds = tuple(replace(r, flaws=(LATE,) if r.index <= late else ()) for r in found.rounds)
    assert verdict(replace(found, rounds=rounds)) is expected


def test_it_says_so() -> None:
    outcome = judge_scenario(waited(20.5, LATE), profile(*(threshold(name, value) for name, value in HELD.items())))
    reasons = [judged.reason for judged in outcome.judgements if judged.metric == P99]
    assert reasons == ["kept with all that late sends added: round 5: sent late (1 of 5 rounds)"]


@pytest.mark.parametrize(
    ("flaw", "shown", "note"),
    [(LATE, "<= {}", "too long by lateness"), (replace(LATE, explains=EVERYTHING), "invalid", "not valid")],
)
def test_the_table_has_the_most_that_it_can_be(flaw: Flaw, shown: str, note: str) -> None:
    found = waited(20.5, flaw)
    (row,) = scenario_rows({"batch-1k": judge_scenario(found, None)}, {"batch-1k": found})
    assert row[3] == shown.format(number(metric_value(found, P99) or 0.0))
    assert not_valid_notes({"batch-1k": found}) == [
        f"note: batch-1k: latency_ms is {note}: round 5: sent late (1 of 5 rounds)"
    ]


@pytest.mark.parametrize("metric", ["p99_back_s", "owed_records", "records_per_s"])
def test_other_figures_that_late_sends_spoil_are_not_judged(metric: str) -> None:
    """A peak is over the sooner, the longer records waited before it."""
    name = metric.partition(".")[0]
    flaw = replace(LATE, metrics=(name,), explains=(Part(offset=1.0, metrics=(metric,)),))
    found = waited(20.0, flaw)
    rounds = tuple(replace(r, metrics={metric: 1.0, **r.metrics}) for r in found.rounds)
    at = rounds[0].metrics[metric]
    held = profile(threshold(metric, at), *(threshold(one, value) for one, value in HELD.items() if one != metric))
    assert judge_scenario(replace(found, rounds=rounds), held).verdict is Verdict.INVALID


@given(st.floats(12, 60), st.floats(0, 100), st.sets(st.integers(0, 4)))
def test_the_longer_records_waited_the_redder(p99_ms: float, more: float, late: set[int]) -> None:
    """From where it is not too good on, which is undecided."""
    order = [(Verdict.PASS, Verdict.IMPROVED), (Verdict.INCONCLUSIVE, Verdict.INVALID), (Verdict.REGRESSED,)]

    def judged(p99_ms: float) -> int:
        found = waited(p99_ms)
        rounds = tuple(replace(r, flaws=(LATE,) if n in late else ()) for n, r in enumerate(found.rounds))
        reached = verdict(replace(found, rounds=rounds))
        return next(n for n, verdicts in enumerate(order) if reached in verdicts)

    assert p99_ms <= 16 or judged(p99_ms + more) >= judged(p99_ms)


@pytest.mark.parametrize(
    ("at_most", "flaw", "expected"),
    [
        (1.5, LATE, Verdict.PASS),
        (1.04, LATE, Verdict.INVALID),
        (1.5, replace(LATE, kind=SATURATED), Verdict.INVALID),
        (0.5, LATE, Verdict.REGRESSED),
    ],
    ids=["kept", "perhaps", "less was sent", "broken"],
)
@pytest.mark.parametrize("late", ["of", "over"])
def test_a_ratio_is_kept_where_it_is_with_and_without_what_late_sends_added(
    at_most: float, flaw: Flaw, expected: Verdict, late: str
) -> None:
    own: dict[str, tuple[Flaw, ...]] = {"of": (), "over": (), late: (flaw,)}
    sides = {
        "fast": waited(20.0, *own["of"], name="fast"),
        "slow": waited(20.0, *own["over"], name="slow"),
    }
    if expected is Verdict.INVALID and flaw is LATE:  # all rounds of it, so that it may decide
        side = sides["fast" if late == "of" else "slow"]
        sides[side.scenario.name] = replace(side, rounds=tuple(replace(r, flaws=(flaw,)) for r in side.rounds))
    at_least = 0.96 if expected is Verdict.INVALID and flaw is LATE else 0.3
    outcome = judge_relation(relation(at_least, P99, at_most), sides)
    assert outcome.verdict is expected
    assert ("kept with all that late sends added" in str(outcome.reasons)) is (expected is Verdict.PASS)


@pytest.mark.parametrize(("p99_ms", "expected"), [(20.5, Verdict.PASS), (22.5, Verdict.REGRESSED)])
def test_so_it_is_for_the_latency_of_a_load_beside_the_scenarios(p99_ms: float, expected: Verdict) -> None:
    """One of five of its rounds was sent late: INVALID, however well it kept its limit."""
    metric = f"part.noisy.{P99}"
    late = replace(LATE, metrics=("part.noisy",), explains=(Part(offset=2.0, metrics=(metric,)),))
    found = waited(20.0, late)
    rounds = tuple(replace(r, metrics={**r.metrics, metric: p99_ms}) for r in found.rounds)
    held = profile(*(threshold(name, value) for name, value in {**HELD, metric: 20.0}.items()))
    outcome = judge_scenario(replace(found, rounds=rounds), held)
    assert outcome.verdict is expected
    assert outcome.reasons == tuple(f"{metric}: {judged.reason}" for judged in outcome.judgements if judged.reason)
