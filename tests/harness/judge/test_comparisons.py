"""Effects of a change on a row, of synthetic rounds, and the words that a person reads of them."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.claims.ratio import judge_against_reference
from perfgate.judge.claims.same import judge_comparison, with_notable
from perfgate.judge.loads import chance_of
from perfgate.judge.units_case import primary_metric
from perfgate.judge.wording import comparison_message, recommendation
from perfgate.model import Change, Comparison, Effect, Load, changed
from perfgate.model import settings as stated
from perfgate.report.plots import paired_rounds_figure
from perfgate.report.style import png
from tests.harness.build import flawed, one_round, scenario
from tests.harness.build.comparisons import comparison


@pytest.mark.parametrize(
    ("factor", "effect"),
    [(1.0, Effect.SAME), (0.98, Effect.SAME), (0.9, Effect.SLOWER), (1.12, Effect.FASTER), (0.95, Effect.SLOWER)],
)
def test_the_rate_decides(factor: float, effect: Effect) -> None:
    outcome = judge_comparison(comparison(factor))
    assert outcome.effect is effect
    assert outcome.primary is not None
    assert outcome.primary.metric.name == "records_per_s"
    low, high = outcome.primary.interval
    assert low < factor - 1 < high
    assert outcome.effect.green == (effect is not Effect.SLOWER)


def test_noise_is_inconclusive_and_says_what_more_time_would_resolve() -> None:
    outcome = judge_comparison(comparison(0.96, noise=(1.3, 0.7, 1.2, 0.8, 1.25, 0.75, 1.1, 0.9)))
    assert outcome.effect is Effect.INCONCLUSIVE
    assert outcome.more_minutes is not None and outcome.more_minutes > 0  # noqa: PT018 - one fact
    message = comparison_message(outcome, "a change")
    assert "min more would tell: raise --budget" in message
    assert "would have shown" in message


def with_latency_spoilt(found: Comparison, load: Load) -> Comparison:
    """Return the comparison of such a load, whose candidate was sent late in its third round."""
    m = found.candidate
    rounds = [flawed(r, invalid_metrics={"latency_ms": "sent late"} if r.index == 3 else {}) for r in m.rounds]
    row = replace(m.scenario, load=load)
    return replace(
        found, baseline=replace(found.baseline, scenario=row), candidate=replace(m, rounds=tuple(rounds), scenario=row)
    )


def test_a_spoilt_latency_makes_only_what_it_decides_invalid() -> None:
    paced = judge_comparison(with_latency_spoilt(comparison(1.0), Load(kind="paced", rate=1000.0)))
    assert paced.effect is Effect.INVALID
    assert paced.reasons == ("candidate: latency_ms.p99: round 3: sent late (1 of 10 rounds)",)
    capped = judge_comparison(with_latency_spoilt(comparison(0.9), Load(kind="capped", rate=1e6)))
    assert capped.effect is Effect.SLOWER
    assert "latency_ms.p99" not in {other.metric.name for other in capped.others}
    assert "latency_ms.p99" in {other.metric.name for other in judge_comparison(comparison(0.9)).others}


def test_a_spoilt_latency_that_ended_it_early_is_the_reason() -> None:
    """It was "3 unit(s) were measured; an interval and a decision need 4", and advice to raise the budget."""
    early = with_latency_spoilt(comparison(1.0, noise=(1.0, 1.0, 1.0)), Load(kind="paced", rate=1000.0))
    outcome = judge_comparison(early)
    assert outcome.effect is Effect.INVALID
    assert outcome.reasons == ("candidate: latency_ms.p99: round 3: sent late (1 of 3 rounds)",)


@settings(deadline=None)
@given(st.floats(0.01, 100))
def test_the_unit_of_the_rates_does_not_count(scale: float) -> None:
    found = comparison(0.9)
    sides = {}
    for side in ("baseline", "candidate"):
        m = getattr(found, side)
        rounds = [replace(r, metrics={n: v * scale for n, v in r.metrics.items()}) for r in m.rounds]
        sides[side] = replace(m, rounds=tuple(rounds))
    scaled = judge_comparison(replace(found, **sides))
    assert scaled.effect is Effect.SLOWER
    assert scaled.unit_effects == pytest.approx(judge_comparison(found).unit_effects)


def test_each_side_has_its_own_cap() -> None:
    """A candidate with three replicas is capped at a third by a target file's limits: not the brokers' doing."""
    found = comparison(1 / 3, cap=1000)
    capped = replace(found.candidate.scenario, load=Load(kind="capped", rate=1000 / 3))
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, scenario=capped)))
    assert outcome.primary is not None
    assert outcome.primary.metric.name == "broker_cpu_us_per_record"
    assert outcome.effect is Effect.SAME


def test_at_the_cap_the_brokers_cpu_decides_and_more_of_it_is_slower() -> None:
    at_cap = comparison(1.0, noise=(1.0,) * 10, cap=1000.0)
    assert primary_metric(at_cap).name == "broker_cpu_us_per_record"
    dearer = replace(
        at_cap,
        candidate=replace(
            at_cap.candidate,
            rounds=tuple(one_round(i, 1000.0, cpu_us=60 + i % 3) for i in range(1, 11)),
        ),
    )
    outcome = judge_comparison(dearer)
    assert outcome.effect is Effect.SLOWER
    assert primary_metric(comparison(0.5, noise=(1.0,) * 10, cap=1000.0)).name == "records_per_s", (
        "no longer at the cap"
    )


def test_a_paced_load_is_judged_by_its_latency_and_is_slower_when_not_sustained() -> None:
    found = comparison(1.0)
    row = replace(found.scenario, load=Load(kind="paced", rate=1000.0))
    rounds = {}
    for side in ("baseline", "candidate"):
        m = getattr(found, side)
        timed = [replace(r, metrics={**r.metrics, "latency_ms.p99": 5.0 + 0.01 * (r.index % 3)}) for r in m.rounds]
        rounds[side] = replace(m, scenario=row, rounds=tuple(timed))
    same = replace(found, **rounds)
    assert primary_metric(same).name == "latency_ms.p99"
    assert judge_comparison(same).effect is Effect.SAME
    short = tuple(replace(r, not_sustained="not sustained: 5 of 10") for r in rounds["candidate"].rounds)
    failing = replace(same, candidate=replace(rounds["candidate"], rounds=short))
    outcome = judge_comparison(failing)
    assert outcome.effect is Effect.SLOWER
    assert outcome.reasons == ("candidate: not sustained: 5 of 10 (10 of 10 rounds, as declared 0 of 10)",)
    for candidate in (failing.candidate, same.candidate):
        neither = judge_comparison(replace(failing, baseline=failing.candidate, candidate=candidate))
        assert neither.effect is Effect.INCONCLUSIVE, "the row as declared was not sustained: nothing was compared"
        message = comparison_message(neither, "a change")
        assert "min more would tell" not in message
        assert "next       compare at a rate that the brokers take as declared: --set load.rate=N" in message
        few = judge_comparison(
            replace(
                failing,
                orders=failing.orders[:3],
                baseline=replace(failing.candidate, rounds=failing.candidate.rounds[:3]),
                candidate=replace(candidate, rounds=candidate.rounds[:3]),
            )
        )
        assert "compare at a rate that the brokers take" in comparison_message(few, "a change"), "too few units, too"


@pytest.mark.parametrize(
    ("units", "declared", "candidate", "effect"),
    [
        (1, 0, 1, Effect.INCONCLUSIVE),
        (4, 2, 3, Effect.INCONCLUSIVE),
        (20, 0, 2, Effect.SAME),
        (20, 0, 4, Effect.SAME),
        (20, 0, 5, Effect.INCONCLUSIVE),
        (20, 0, 10, Effect.SLOWER),
        (20, 9, 12, Effect.INCONCLUSIVE),
        (10, 0, 10, Effect.SLOWER),
    ],
)
def test_a_rate_at_the_edge_is_not_red_by_chance(units: int, declared: int, candidate: int, effect: Effect) -> None:
    """Where each side is short in every other burst, three of four were the candidate's in a fifth of all cases."""
    found = comparison(1.0, noise=(1.0, 1.001, 0.999, 1.0) * 5, planned_units=20)
    found = replace(found, orders=found.orders[:units])
    for side, short in (("baseline", declared), ("candidate", candidate)):
        m = getattr(found, side)
        rounds = [
            replace(
                r,
                metrics={**r.metrics, "latency_ms.p99": 5.0 + 0.01 * (r.index % 3)},
                not_sustained="not sustained: 9 of 10" if r.index <= short else "",
            )
            for r in m.rounds[:units]
        ]
        row = replace(found.scenario, load=Load(kind="paced", rate=1000.0))
        found = replace(found, **{side: replace(m, scenario=row, rounds=tuple(rounds))})
    assert judge_comparison(found).effect is effect


def on_pairs(short: int) -> Comparison:
    """Return three pairs of clusters with four bursts each: of the candidate's clusters so many did not take a load."""
    found = comparison(1.0, noise=(1.0, 1.001, 0.999, 1.0) * 3, method="pairs", rounds_per_unit=4)
    found = replace(found, planned_units=3, orders=("ABBA BAAB ABBA BAAB",) * 3)
    rounds = tuple(
        replace(
            r,
            not_sustained="not sustained: 9 of 10" if r.index <= 4 * short else "",
        )
        for r in found.candidate.rounds
    )
    row = replace(found.scenario, load=Load(kind="paced", rate=1000.0))
    candidate = replace(found.candidate, scenario=row, rounds=rounds)
    return replace(found, baseline=replace(found.baseline, scenario=row), candidate=candidate)


@pytest.mark.parametrize("short", [1, 2, 3])
def test_bursts_of_a_pair_of_clusters_are_not_independent(short: int, tmp_path: Path) -> None:
    """Clusters of the same kind differ by some 5 %: at a rate that half of them take two pairs were SLOWER, with 12 of
    12 bursts of one side, in 4 of 100 comparisons of nothing."""
    found = on_pairs(short)
    assert judge_comparison(found).effect is Effect.INCONCLUSIVE
    (tmp_path / "ratios.toml").write_text("[default]\nrecords_per_s = { at_least = 0.95 }\n")
    assert not judge_against_reference(found, load_ratios(tmp_path)).verdict.red


@given(st.integers(1, 40), st.data())
def test_the_chance_of_short_rounds_is_one(rounds: int, data: st.DataObject) -> None:
    after, before = (data.draw(st.integers(0, rounds)) for _ in range(2))
    chance = chance_of(after, rounds, before, rounds)
    assert 0 < chance <= 1
    assert chance_of(0, rounds, before, rounds) == 1
    if after <= before:
        assert chance >= 0.5
    if after:
        assert chance <= chance_of(after - 1, rounds, before + 1, rounds) or before == rounds


def test_an_invalid_round_on_either_side_is_invalid_whatever_the_numbers() -> None:
    found = comparison(1.0)
    for side in ("baseline", "candidate"):
        m = getattr(found, side)
        broken = replace(m, rounds=(*m.rounds[:-1], one_round(10, 1, invalid=("a broker died",))))
        outcome = judge_comparison(replace(found, **{side: broken}))
        assert outcome.effect is Effect.INVALID
        assert outcome.reasons == (f"{side}: round 10: a broker died",)
        assert not outcome.effect.green


def test_too_few_units_are_inconclusive() -> None:
    assert judge_comparison(comparison(0.5, noise=(1.0,))).effect is Effect.INCONCLUSIVE
    few = judge_comparison(comparison(0.65, noise=(1.0, 1.4), planned_units=30))
    assert (few.effect, few.more_minutes) == (Effect.INCONCLUSIVE, None)
    assert few.primary is not None, "no outcome without a figure when units were measured"
    assert few.primary.interval == pytest.approx((-0.76, 3.2), abs=0.02), "by what these scatter, and by no t"
    assert few.reasons == ("2 unit(s) were measured; an interval and a decision need 4",)
    message = comparison_message(few, "x")
    assert "min more would tell" not in message, "-99.7 .. +20522 % says nothing"
    assert f"4 more take about {max(1, math.ceil(2 * few.minutes))} min: raise --budget by that much" in message


def test_the_rounds_of_a_unit_are_taken_together() -> None:
    outcome = judge_comparison(comparison(0.97, noise=(1.2, 0.8) * 5, rounds_per_unit=2, planned_units=5))
    assert len(outcome.unit_effects) == 5


def test_secondary_metrics_are_marked_by_their_false_discovery_rate() -> None:
    dearer = judge_comparison(comparison(1.0, cpu_us=54.0))
    plain = judge_comparison(comparison(1.0))
    marked, unmarked = with_notable([dearer, plain])
    cpu = next(other for other in marked.others if other.metric.name == "broker_cpu_us_per_record")
    assert cpu.notable
    assert cpu.worse
    assert not any(other.notable for other in unmarked.others)
    assert "broker CPU" not in recommendation([unmarked], "x")
    assert "But look at CPU of all brokers per record, which got worse." in recommendation([marked], "x")


def test_a_row_that_is_dearer_at_the_same_rate_is_named_with_its_reason() -> None:
    text = recommendation([judge_comparison(comparison(1.0, cpu_us=80.0))], "x")
    assert text.startswith("Do not apply 'x' as it is: it makes batch-1k (records_per_s is the same, but broker_cpu")
    assert text.endswith("beyond +10 %) worse.")


def test_the_recommendation_says_what_to_do() -> None:
    slower, same, faster = (judge_comparison(comparison(factor)) for factor in (0.8, 1.0, 1.3))
    assert recommendation([slower, same], "x").startswith("Do not apply 'x' as it is: it makes batch-1k (-")
    assert recommendation([same, faster], "x").startswith("Apply 'x': faster in batch-1k")
    assert "changes no scenario's speed by more than 5 %" in recommendation([same], "x")
    noisy = judge_comparison(comparison(0.96, noise=(1.3, 0.7, 1.2, 0.8)))
    assert recommendation([same, noisy], "x").startswith("Do not decide on 'x' yet")
    cut = recommendation([same, faster], "x", "the run was interrupted")
    assert cut == "Do not decide on 'x' yet: the run was interrupted; so far: batch-1k SAME, batch-1k FASTER."
    assert recommendation([slower], "x", "the run was interrupted").startswith("Do not apply")
    assert recommendation([], "x") == "Nothing can be said about 'x': no scenario was compared."


def test_the_message_of_a_slowdown_has_the_effect_with_its_interval() -> None:
    message = comparison_message(judge_comparison(comparison(0.9)), "linger 5")
    assert re.match(r"SLOWER batch-1k with 'linger 5': -\d+\.\d % records/s, 95 % interval -", message)
    assert "  meaning    the change makes it slower" in message
    assert "12 pairs in 6 units, 2.0 min" in message, "each burst holds two pairs, and the second look decided"


def test_a_change_is_laid_over_the_row_and_over_nothing_else() -> None:
    row = scenario()
    assert changed(row, Change(name="nothing")) == row
    other = changed(row, Change(name="x", changes=(("producer.linger.ms", 5), ("topic.flush.messages", "1"))))
    assert dict(other.producer) == {"acks": "1", "linger.ms": "5"}
    assert other.topic.config == (("flush.messages", "1"),)
    assert other.cluster == row.cluster
    live = Change(name="x", changes=(("broker.num.io.threads", "2"),))
    assert live.concerns_brokers
    assert not live.restarts_brokers
    assert Change(name="x", changes=(("cluster.version", "4.0.0"),)).restarts_brokers
    assert not Change(name="x", changes=(("producer.linger.ms", "5"),)).concerns_brokers


def test_the_picture_shows_every_unit_and_the_estimate() -> None:
    effects = judge_comparison(comparison(0.9)).unit_effects
    (axes,) = paired_rounds_figure(effects, 10, "records_per_s").axes
    drawn = {str(line.get_label()): np.asarray(line.get_ydata(), float).tolist() for line in axes.lines}
    assert drawn["each unit"] == pytest.approx([effect * 100 for effect in effects])
    assert drawn["estimate so far"][-1] == pytest.approx(-10, abs=2)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("unit (both sides in turn)", "difference, %")
    low, high = axes.get_ylim()
    assert low < min(drawn["each unit"]) < max(drawn["each unit"]) < high, "nothing lies outside of the picture"
    (asked,) = paired_rounds_figure(effects, 10, "records_per_s", margin=0.02).axes
    assert "same: within 2 %" in asked.get_legend_handles_labels()[1]
    assert png(paired_rounds_figure(effects[:1], 10, "records_per_s")).startswith(b"\x89PNG"), (
        "one unit has no estimate yet"
    )


@pytest.mark.parametrize(
    ("where", "name", "value", "effect"),
    [
        ("cluster", "log.flush.interval.messages", 100_000, Effect.INCONCLUSIVE),
        ("cluster", "log.flush.interval.messages", 300, Effect.SAME),
        ("topic", "segment.bytes", 1 << 30, Effect.INCONCLUSIVE),
        ("topic", "segment.bytes", 300, Effect.SAME),
        ("cluster", "log.retention.bytes", 1_000_000_000, Effect.INCONCLUSIVE),
        ("cluster", "log.retention.ms", -1, Effect.INCONCLUSIVE),
        ("topic", "segment.ms", 60_000, Effect.INCONCLUSIVE),
        ("topic", "segment.ms", 1_000, Effect.SAME),
        ("cluster", "log.roll.hours", 1, Effect.INCONCLUSIVE),
        ("topic", "cleanup.policy", "compact", Effect.SAME),
    ],
)
def test_a_setting_that_never_took_effect_is_not_the_same(where: str, name: str, value: object, effect: Effect) -> None:
    """Topics are new in every round, were given 1,000 records, 334 a partition, and lived for some 12 s."""
    found = comparison(1.0)
    assert round(60 * found.minutes / len(found.baseline.rounds)) == 12
    part = getattr(found.candidate.scenario, where)
    row = replace(found.candidate.scenario, **{where: replace(part, config=stated({name: value}))})
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, scenario=row)))
    assert outcome.effect is effect
    assert judge_comparison(replace(found, candidate=replace(found.candidate, scenario=row)), final=False).effect is (
        Effect.SAME
    ), "more units would not help: it ends"
    if effect is Effect.INCONCLUSIVE:
        assert f"{name} of {value:,}".replace(",", "") in outcome.reasons[0].replace(",", "")
        assert " was never reached: no " in outcome.reasons[0]


def test_what_is_slower_is_slower_whatever_took_effect() -> None:
    found = comparison(0.8)
    cluster = replace(found.candidate.scenario.cluster, config=stated({"log.segment.bytes": 1 << 30}))
    row = replace(found.candidate.scenario, cluster=cluster)
    assert judge_comparison(replace(found, candidate=replace(found.candidate, scenario=row))).effect is Effect.SLOWER


@pytest.mark.parametrize(("method", "orders", "size"), [("turns", "ABBA", 1), ("pairs", " ".join(["ABBA"] * 6), 6)])
def test_what_starting_and_measuring_again_take_is_no_life_of_a_topic(method: str, orders: str, size: int) -> None:
    """A burst lasts 8 s; a pair of clusters had three minutes, so that segment.ms of 15 s was the SAME."""
    noise = [1.0, 1.001, 0.999] * 2 * size
    found = comparison(1.0, noise=noise, method=method, rounds_per_unit=size, orders=(orders,) * 6, minutes=18.0)
    found = replace(found, planned_units=6)
    topic = replace(found.candidate.scenario.topic, config=stated({"segment.ms": 15_000}))
    row = replace(found.candidate.scenario, topic=topic)
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, scenario=row)))
    assert outcome.effect is Effect.INCONCLUSIVE
    assert outcome.reasons[0].startswith("segment.ms of 15000 was never reached")


@pytest.mark.parametrize(("below", "effect"), [(1, Effect.SAME), (6, Effect.INCONCLUSIVE), (9, Effect.SLOWER)])
def test_rounds_below_the_cap_are_not_the_same_as_none(below: int, effect: Effect) -> None:
    """The median of 20 stood at the cap, and 8 were at 0.6 of it: SAME, because a record cost the brokers as much."""
    noise = (1.0,) * 20
    found = comparison(1.0, noise=noise, cap=1000.0)
    rounds = tuple(
        replace(r, metrics={**r.metrics, "records_per_s": 600.0 if r.index % 2 and r.index < 2 * below else 1000.0})
        for r in found.candidate.rounds
    )
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, rounds=rounds)))
    assert outcome.primary is not None
    assert outcome.primary.metric.name == "broker_cpu_us_per_record"
    assert outcome.effect is effect
    if effect is Effect.INCONCLUSIVE:
        assert outcome.reasons == (f"candidate: below its cap in {below} of 20 rounds, as declared in 0 of 20",)


LATE = "12 of 1,000 sends timed out"


def with_late(found: Comparison, side: str, *, once: bool) -> Comparison:
    """Return the comparison with sends of this side that were too late, in a round that was measured again or not."""
    measured = getattr(found, side)
    accounting = replace(measured.rounds[0].accounting, failed={"_MSG_TIMED_OUT": 12})
    late = flawed(measured.rounds[0], invalid=(LATE,), broken=(LATE,), perhaps_late=(LATE,), accounting=accounting)
    rounds = measured.rounds if once else (late, *measured.rounds[1:])
    discarded = (*measured.discarded, *((late,) if once else ()))
    return replace(found, **{side: replace(measured, rounds=rounds, discarded=discarded)})


def test_what_was_late_once_is_told_and_breaks_nothing() -> None:
    """One round that was late on the candidate's side made the change BROKEN: no canary tells of a busy machine."""
    outcome = judge_comparison(with_late(comparison(1.0), "candidate", once=True))
    assert outcome.effect is Effect.SAME
    assert outcome.reasons == (f"candidate, once, and not when it was measured again: {LATE}",)
    assert judge_comparison(with_late(comparison(1.0), "baseline", once=True)).reasons == ()


@pytest.mark.parametrize(("once", "effect"), [("candidate", Effect.BROKEN), ("baseline", Effect.INVALID)])
def test_what_is_late_twice_counts(once: str, effect: Effect) -> None:
    found = with_late(with_late(comparison(1.0), once, once=True), "candidate", once=False)
    assert judge_comparison(found).effect is effect


def test_what_was_late_once_breaks_nothing_when_something_else_goes_wrong() -> None:
    """A generator that was the limit, in a round after one that was late and excused, made the change BROKEN."""
    found = with_late(comparison(1.0), "candidate", once=True)
    spoilt = flawed(found.candidate.rounds[3], invalid=("generator saturated",))
    rounds = (*found.candidate.rounds[:3], spoilt, *found.candidate.rounds[4:])
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, rounds=rounds)))
    assert outcome.effect is Effect.INVALID


def test_a_baseline_that_was_late_once_excuses_no_lost_record() -> None:
    found = with_late(comparison(1.0), "baseline", once=True)
    lost = flawed(found.candidate.rounds[3], invalid=("2 records lost",), broken=("2 records lost",))
    rounds = (*found.candidate.rounds[:3], lost, *found.candidate.rounds[4:])
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, rounds=rounds)))
    assert outcome.effect is Effect.BROKEN
