"""SAME looked at one metric: at the cap, and just below it, latency and CPU could be many times worse."""

from dataclasses import replace
from typing import Any, Literal
from unittest.mock import Mock

import pytest

from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.claims.ratio import ReferenceStopRule, judge_against_reference
from perfgate.judge.claims.same import SequentialStopRule, judge_comparison
from perfgate.judge.wording import comparison_message, recommendation
from perfgate.measure.comparing import Comparing, cannot_be_compared
from perfgate.model import (
    AS_USUAL,
    Change,
    ClusterSpec,
    Comparison,
    Consumers,
    Deciding,
    Effect,
    Load,
    Scenario,
    System,
    Verdict,
    settings,
)
from tests.harness.build import scenario
from tests.harness.build.comparing import comparing
from tests.harness.build.comparisons import comparison
from tests.harness.corpus.fake_run import World, fake_setup
from tests.harness.run_gate import ROOT


def read_along(kind: Literal["capped", "paced"], metric: str, factor: float, readers: Consumers) -> Comparison:
    """Return a comparison whose consumers, the candidate's these, are given `factor` times the baseline's."""
    sides = {}
    found = comparison(1.0)
    for side, times, consumers in (("baseline", 1.0, Consumers(membership="assigned")), ("candidate", factor, readers)):
        measured = getattr(found, side)
        row = replace(measured.scenario, consumers=consumers, load=Load(kind=kind, rate=1e6))
        rounds = tuple(
            replace(r, metrics={**r.metrics, metric: 100.0 * times * (1 + 0.01 * (-1) ** r.index)})
            for r in measured.rounds
        )
        sides[side] = replace(measured, scenario=row, rounds=rounds)
    return with_latency(replace(found, **sides), 1.0)


def with_latency(found: Comparison, factor: float) -> Comparison:
    """Return the comparison whose candidate's p99 is so many times the baseline's."""
    rounds = [
        replace(r, metrics={**r.metrics, "latency_ms.p99": 4.0 * factor * (1 + 0.01 * (-1) ** r.index)})
        for r in found.candidate.rounds
    ]
    return replace(found, candidate=replace(found.candidate, rounds=tuple(rounds)))


@pytest.mark.parametrize(
    ("latency", "cpu_us", "cap", "effect", "words"),
    [
        (1.0, 50.0, 1e6, Effect.SAME, ""),
        (1.2, 53.0, 1e6, Effect.SAME, ""),
        # p99 x 20 at the cap and below it
        (20.0, 50.0, 1e6, Effect.SLOWER, "latency_ms.p99 is +1900 %"),
        (20.0, 50.0, 1000.0, Effect.SLOWER, "latency_ms.p99 is +1900 %"),
        (1.8, 50.0, 1e6, Effect.SLOWER, "latency_ms.p99 is +80 %"),
        # CPU + 60 % with the rate at 97.9 % of the cap: there it was not looked at
        (1.0, 80.0, 1000.0 / 0.979, Effect.SLOWER, "broker_cpu_us_per_record is +60 %"),
        (1.0, 80.0, 1e6, Effect.SLOWER, "broker_cpu_us_per_record is +60 %"),
        # at the cap it decides by itself
        (1.0, 80.0, 1000.0, Effect.SLOWER, ""),
        # what is better is no harm
        (0.1, 20.0, 1e6, Effect.SAME, ""),
    ],
)
def test_what_got_much_worse_is_not_the_same(
    latency: float, cpu_us: float, cap: float, effect: Effect, words: str
) -> None:
    found = with_latency(comparison(1.0, cpu_us=cpu_us, cap=cap), latency)
    outcome = judge_comparison(found)
    assert outcome.effect is effect
    assert words in " ".join(outcome.reasons)
    if words:
        assert words in comparison_message(outcome, "a change")


@pytest.mark.parametrize(
    ("kind", "metric", "factor", "effect"),
    [
        ("capped", "received_records_per_s", 0.5, Effect.SLOWER),
        ("capped", "received_records_per_s", 0.98, Effect.SAME),
        ("capped", "received_records_per_s", 2.0, Effect.SAME),
        ("paced", "end_to_end_latency_ms.p99", 20.0, Effect.SLOWER),
        ("paced", "end_to_end_latency_ms.p99", 1.2, Effect.SAME),
        ("paced", "end_to_end_latency_ms.p99", 0.1, Effect.SAME),
    ],
)
def test_what_consumers_wait_for_is_not_the_same_either(
    kind: Literal["capped", "paced"], metric: str, factor: float, effect: Effect
) -> None:
    outcome = judge_comparison(read_along(kind, metric, factor, Consumers(membership="assigned")))
    assert outcome.effect is effect, outcome.reasons
    assert (metric in " ".join(outcome.reasons)) is (effect is Effect.SLOWER)


@pytest.mark.parametrize(
    ("kind", "metric", "factor", "effect"),
    [
        ("paced", "end_to_end_latency_ms.p99", 1.4, Effect.SLOWER),
        ("paced", "end_to_end_latency_ms.p99", 1.0, Effect.SAME),
        ("paced", "end_to_end_latency_ms.p99", 0.7, Effect.FASTER),
        ("capped", "received_records_per_s", 0.9, Effect.SLOWER),
    ],
)
def test_a_change_of_consumers_is_decided_by_what_these_are_given(
    kind: Literal["capped", "paced"], metric: str, factor: float, effect: Effect
) -> None:
    """fetch.wait.max.ms was decided by what producers wait for: SAME, with 40 % more from end to end."""
    changed_readers = Consumers(membership="assigned", config=(("fetch.wait.max.ms", "50"),))
    outcome = judge_comparison(read_along(kind, metric, factor, changed_readers))
    assert outcome.effect is effect, outcome.reasons
    assert outcome.primary is not None
    assert outcome.primary.metric.name == metric


def test_what_could_not_be_looked_at_is_said() -> None:
    found = comparison(1.0)
    rounds = [replace(r, metrics={"records_per_s": r.metrics["records_per_s"]}) for r in found.candidate.rounds]
    blind = replace(found, candidate=replace(found.candidate, rounds=tuple(rounds)))
    outcome = judge_comparison(blind)
    assert outcome.effect is Effect.SAME
    assert [reason.partition(" ")[0] for reason in outcome.reasons] == ["latency_ms.p99", "broker_cpu_us_per_record"]
    assert "whether it got worse is not known" in comparison_message(outcome, "a change")
    assert judge_comparison(found).reasons == ()


@pytest.mark.parametrize(
    ("latency", "cpu_us", "asked", "effect"),
    [
        (1.0, 50.0, (), Effect.FASTER),
        (1.0, 70.0, (), Effect.FASTER),  # what is faster may cost more: it is told
        (3.0, 50.0, (), Effect.SLOWER),
        (3.0, 50.0, ("records_per_s",), Effect.FASTER),
    ],
)
def test_what_keeps_records_waiting_is_not_faster(
    latency: float, cpu_us: float, asked: tuple[str, ...], effect: Effect
) -> None:
    """A p99 that had tripled beside a rate of 12 % more was green, and only said to be looked at."""
    found = with_latency(comparison(1.12, cpu_us=cpu_us), latency)
    outcome = judge_comparison(replace(found, decides=Deciding(metrics=asked)))
    assert outcome.effect is effect, outcome.reasons
    if effect is Effect.SLOWER:
        assert outcome.reasons[0].startswith("records_per_s is better, but latency_ms.p99 is +200 %")
        assert outcome.reasons[1] == "where only that counts: --on records_per_s"
        words = "SLOWER batch-1k with 'x': records_per_s is better, but latency_ms.p99 is +200 %"
        assert comparison_message(outcome, "x").startswith(words)
        told = recommendation([outcome], "x")
        assert told.startswith(
            "Do not apply 'x' as it is: it makes batch-1k (records_per_s is better, but latency_ms.p"
        )


def test_more_clients_have_more_buffers_to_wait_in() -> None:
    """Three threads for one have three buffers of 32 MiB: below the cap a record waits for all that lies in them."""
    found = with_latency(comparison(1.2), 2.5)
    row = replace(found.candidate.scenario, threads=3)
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, scenario=row)))
    assert outcome.effect is Effect.FASTER


def test_a_faster_row_whose_latency_could_not_be_looked_at_says_so() -> None:
    found = comparison(1.12)
    rounds = [replace(r, metrics={"records_per_s": r.metrics["records_per_s"]}) for r in found.candidate.rounds]
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, rounds=tuple(rounds))))
    assert outcome.effect is Effect.FASTER
    assert [reason.partition(" ")[0] for reason in outcome.reasons] == ["latency_ms.p99"]


def test_a_slower_row_needs_no_second_reason() -> None:
    outcome = judge_comparison(with_latency(comparison(0.9), 20.0))
    assert outcome.effect is Effect.SLOWER
    assert outcome.reasons == ()


@pytest.mark.parametrize(
    ("change", "consumers", "method"),
    [
        (Change(name="linger", changes=(("producer.linger.ms", 5),)), None, "turns"),
        (Change(name="buffer", changes=(("producer.queue.buffering.max.kbytes", 1024),)), None, "rounds"),
        (Change(name="buffer", changes=(("producer.queue.buffering.max.messages", 100),)), None, "rounds"),
        (Change(name="linger", changes=(("producer.linger.ms", 5),)), Consumers(membership="group"), "rounds"),
        (Change(name="version", changes=(("cluster.version", "4.0.0"),)), None, "pairs"),
    ],
)
def test_a_change_of_the_buffer_is_not_measured_by_turns_which_would_undo_it(
    change: Change, consumers: Consumers | None, method: str
) -> None:
    row: Scenario = replace(scenario(), consumers=consumers)
    assert comparing(change, row)._begun(row, pairs=change.restarts_brokers).method == method


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("broker.leader.replication.throttled.rate", "rounds"),
        ("broker.replica.alter.log.dirs.io.max.bytes.per.second", "rounds"),
        ("broker.quota.window.num", "rounds"),
        ("broker.num.io.threads", "turns"),
    ],
)
def test_a_bound_on_a_rate_is_not_measured_by_turns_in_which_each_side_rests(path: str, method: str) -> None:
    """A quota of 73 % of the rate was +0.2 % (-5.6 .. +6.3) in 14 bursts on Pulsar: it is kept over both turns."""
    row = scenario()
    assert comparing(Change(name="x", changes=((path, "2"),)), row)._begun(row, pairs=False).method == method
    policy = settings({"publishThrottlingRateInMsg": 25_000})
    limited = replace(row, topic=replace(row.topic, config=policy))
    assert comparing(Change(name="x"), limited)._begun(limited, pairs=False).method == "rounds", "as declared"


@pytest.mark.parametrize(
    ("system", "setting", "against", "method"),
    [
        ("pulsar", "deduplicationEnabled", False, "rounds"),
        ("pulsar", "deduplicationEnabled", True, "turns"),
        ("pulsar", "ensemble", False, "turns"),
        ("kafka", "min.insync.replicas", False, "turns"),
    ],
)
def test_policies_that_both_sides_would_have_are_not_measured_by_turns(
    system: System, setting: str, against: bool, method: str
) -> None:
    """The candidate's deduplication was set before the first turn, and both sides' topics had it: SAME."""
    row = replace(scenario(), cluster=ClusterSpec(system=system))
    made = comparing(Change(name="x", changes=((f"topic.{setting}", "2"),)), row)
    made.against = against
    assert made._begun(row, pairs=False).method == method
    made.change = Change(name="x", changes=(("producer.linger.ms", 5),))
    alike = replace(row, topic=replace(row.topic, config=settings({setting: "2"})))
    assert made._begun(alike, pairs=False).method == "turns"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("load.records", 5, "leaves it as it is"),  # of a backlog alone: this load has none
        ("producer.acks", "1", "leaves it as it is"),
        ("consumers.threads", 2, "concerns consumers"),
        ("load.rate", 7, None),
    ],
)
def test_a_change_that_changes_nothing_is_not_called_the_same(path: str, value: object, words: str | None) -> None:
    setup, change = fake_setup(World(), [scenario()]), Change(name="x", changes=((path, value),))
    reason = cannot_be_compared(scenario(), change, setup, AS_USUAL, against=False)
    assert reason is None if words is None else words in (reason or "")


def test_a_row_is_still_compared_with_itself_where_nothing_is_what_is_asked_about() -> None:
    assert comparing(Change(name="nothing")).cannot(scenario()) is None


@pytest.mark.parametrize("side", ["baseline", "candidate"])
@pytest.mark.parametrize("factor", [0.8, 1.0, 1.3])
def test_brokers_that_still_compile_are_neither_slower_nor_the_same(side: str, factor: float) -> None:
    """Of two clusters the one that started without Java's cache was a third as fast for minutes: SLOWER.

    A candidate that is slower than cold brokers is slower: that the baseline's compile explains no loss.
    """
    found, red = comparison(factor), (factor, side) == (0.8, "baseline")

    def with_cold(count: int) -> Comparison:
        one = getattr(found, side)
        rounds = tuple(
            replace(r, metrics={**r.metrics, "broker_compile_share.max": 0.4 if n < count else 0.02})
            for n, r in enumerate(one.rounds)
        )
        return replace(found, **{side: replace(one, rounds=rounds)})

    count = len(found.baseline.rounds)
    cold, warm = judge_comparison(with_cold(count // 2 + 1)), judge_comparison(with_cold(count // 2))
    assert cold.effect is (Effect.SLOWER if red else Effect.INCONCLUSIVE)
    assert f"{side}: brokers still warming up: in {count // 2 + 1} of {count} rounds" in cold.reasons[0]
    assert "min more" not in comparison_message(cold, "x"), "the reason says what helps"
    assert warm.effect in (Effect.SLOWER, Effect.SAME, Effect.FASTER)
    held = judge_against_reference(with_cold(count), load_ratios(ROOT / "perfgate" / "catalogue"))
    assert held.verdict is (Verdict.REGRESSED if red else Verdict.INCONCLUSIVE)
    assert not SequentialStopRule().decided(with_cold(count)), "warm ones may follow: it goes on"
    assert not ReferenceStopRule(load_ratios(ROOT / "perfgate" / "catalogue")).decided(with_cold(count).turned())


def test_what_cold_brokers_told_is_not_told_of_warm_ones() -> None:
    """The look at four cold units was refused, and counted when most rounds were of warm brokers: SLOWER by 70 %."""
    found = comparison(1.0, noise=[1.0 + 0.004 * (-1) ** n for n in range(40)])
    rounds = tuple(
        replace(
            r, metrics={**r.metrics, "broker_compile_share.max": 0.4, "records_per_s": r.metrics["records_per_s"] / 3}
        )
        if n < 4
        else r
        for n, r in enumerate(found.candidate.rounds)
    )
    found = replace(found, candidate=replace(found.candidate, rounds=rounds))
    assert judge_comparison(found).effect is Effect.INCONCLUSIVE
    held = judge_against_reference(found, load_ratios(ROOT / "perfgate" / "catalogue"))
    assert held.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("num.io.threads", "turns"),
        ("log.flush.interval.messages", "turns"),
        ("num.network.threads", "rounds"),
        ("log.preallocate", "rounds"),
        ("log.index.interval.bytes", "rounds"),
        ("log.roll.jitter.ms", "rounds"),
    ],
)
def test_what_a_segment_keeps_is_set_before_its_topic_is_made(name: str, method: str) -> None:
    """A burst makes the topics of both sides before its first turn: B's turns were measured with A's segments."""
    made = comparing(Change(name="x", changes=((f"broker.{name}", "1"),)))
    assert made._begun(scenario(), pairs=False).method == method


def test_backlogs_are_written_by_brokers_of_their_own_side() -> None:
    """Those of the warm-up, both written as declared, were read by both sides: one compression was compared with
    itself."""
    done: list[str] = []
    bench = Mock(delete_backlogs=lambda: done.append("deleted"))

    class Noted(Comparing):
        def _warm(self, *_: object, **__: object) -> Any:
            done.append("warm")
            return bench

        def _until_decided(self, *_: object, **__: object) -> None:
            done.append("measured")

    for path, expected in (
        ("broker.compression.type", ["warm", "deleted", "measured", "deleted"]),
        ("consumer.fetch.min.bytes", ["warm", "measured", "deleted"]),
    ):
        done.clear()
        row = replace(scenario(), consumers=Consumers(membership="group"))
        made = comparing(Change(name="x", changes=((path, "1"),)), row, kind=Noted)
        made._alternate([made._begun(row, pairs=False)], 1.0)
        assert done == expected
