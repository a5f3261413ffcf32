"""A comparison as a whole: what a person is told while it is measured."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.claims.ratio import ReferenceStopRule
from perfgate.judge.claims.same import SequentialStopRule, judge_comparison
from perfgate.measure.comparing import Comparing, cannot_be_compared
from perfgate.measure.parts import Compared
from perfgate.measure.plan import at_most
from perfgate.measure.sides import Switch
from perfgate.model import (
    AS_USUAL,
    Change,
    ClusterSpec,
    Comparison,
    Consumers,
    Deciding,
    Effect,
    Load,
    RecordedPairs,
    Scenario,
    TopicSpec,
    settings,
)
from perfgate.model.changes import changed
from perfgate.model.compared import ComparisonStopRule, declared_digest
from perfgate.model.errors import ConfigurationError, StartRefusedError, TargetError
from tests.harness.build import flawed, one_round, scenario
from tests.harness.build.clock import Clock
from tests.harness.build.comparing import comparing
from tests.harness.corpus.fake_run import TIER, World


@dataclass
class Answers:
    """A stop rule with these answers."""

    decided_now: bool
    fewest: int = 4

    def fewest_units(self, _comparison: Comparison) -> int:
        return self.fewest

    def may_decide(self, _comparison: Comparison) -> Sequence[str]:
        return ()

    def decided(self, _comparison: Comparison) -> bool:
        return self.decided_now


@pytest.mark.parametrize(
    ("budget_s", "told", "units"), [(480.0, 2, 2), (620.0, 3, 3), (640.0, 0, 4), (700.0, 0, 4), (900.0, 0, 5)]
)
def test_a_budget_that_affords_too_few_pairs_is_told_after_the_first(
    clock: Clock, budget_s: float, told: int, units: int
) -> None:
    """Two pairs were measured in 5.6 of 8 min, then it said that a decision needs four.

    The pair that makes a decision possible may end a quarter of it late: of 10 min 6.8 were used, and told nothing.
    """
    said = list[str]()

    class Pairs(Comparing):
        def _pair(self, comparisons: Sequence[Compared], first: str, deadline: float) -> None:
            clock.now += 168
            for row in comparisons:
                row.orders.append("ABBA")

    row = Compared({"A": scenario(), "B": scenario()}, "pairs", 1, 6)
    made = comparing(Change(name="a heap"), kind=Pairs, said=said, stop=Answers(decided_now=False))
    made._pairs([row], budget_s)
    words = (
        f"a pair of clusters takes 2.8 min, so {budget_s / 60:.0f} min afford {told} of the 4 that a decision needs: "
        "--budget 14m tells something"
    )
    assert said == ([words] if told else [])
    assert row.units == units


def recorded_of(row: Scenario, **changes: Any) -> RecordedPairs:
    """Return A/A pairs of this scenario, by blocks of two rounds a side and the window of the fake tier."""
    pairs = RecordedPairs(
        metric="records_per_s",
        rounds_per_unit=4,
        effects=(0.1,) * 5,
        window_s=TIER.window_s,
        declared=declared_digest(row),
    )
    return replace(pairs, **changes)


def test_recorded_pairs_are_of_the_same_scenario_and_length_and_nothing_on_pairs_is_never_decided_early() -> None:
    """To end as soon as pairs of nothing are alike would record too little scatter."""
    stop = Answers(decided_now=True, fewest=3)
    kept, shorter = (recorded_of(scenario(), rounds_per_unit=n) for n in (6, 2))
    recorded = {"batch-1k": (shorter, kept), "other": (kept,)}
    of_version = comparing(Change(name="x", changes=(("cluster.version", "3.9.1"),)), stop=stop, recorded=recorded)
    row = Compared({"A": scenario(), "B": scenario()}, "pairs", 1, 6, orders=["ABBA"], planned=3)
    assert of_version._comparison(row).recorded == (kept,)
    assert of_version._decided(row, 0)
    of_nothing = comparing(Change(name="nothing", on_pairs=True), stop=stop, recorded=recorded)
    assert not of_nothing._decided(row, 0)
    row.orders *= 3
    assert of_nothing._decided(row, 0), "the budget is spent"
    row.method = "turns"
    assert of_nothing._comparison(row).recorded == ()


@pytest.mark.parametrize(
    ("measured_s", "recorded_s", "used"),
    [(10.0, 10.0, True), (22.0, 10.0, False), (22.0, 22.0, True), (10.0, 22.0, False)],
)
def test_recorded_pairs_of_rounds_are_used_for_rounds_as_long(measured_s: float, recorded_s: float, used: bool) -> None:
    """Where brokers' CPU may decide rounds last longer than the tier says, and pairs of these told of shorter ones."""
    kept = recorded_of(scenario(), window_s=recorded_s)
    made = comparing(Change(name="x", on_pairs=True), recorded={"batch-1k": (kept,)})
    row = Compared({"A": scenario(), "B": scenario()}, "pairs", 2, 2)
    for rounds in row.rounds.values():
        rounds += [replace(one_round(number, 1000.0), window_s=measured_s) for number in (1, 2, 3, 4)]
    assert made._comparison(row).recorded == ((kept,) if used else ())


def test_recorded_pairs_of_a_scenario_that_was_edited_since_do_not_count_and_that_is_said(clock: Clock) -> None:
    """Pairs of 1 KiB told of 10 KiB under the same name, whose noise was SLOWER."""
    said = list[str]()

    class Pairs(Comparing):
        def _pair(self, comparisons: Sequence[Compared], first: str, deadline: float) -> None:
            clock.now += 600
            for one in comparisons:
                one.orders.append("ABBA BAAB")

    def noted(row: Scenario, kept: RecordedPairs) -> tuple[Comparison, list[str]]:
        said.clear()
        made = comparing(Change(name="x"), kind=Pairs, said=said, recorded={"batch-1k": (kept,)})
        compared = Compared({"A": row, "B": row}, "pairs", 1, 2)
        made._pairs([compared], 60.0)
        return made._comparison(compared), [line for line in said if "A/A" in line]

    as_before, kept = scenario(), recorded_of(scenario(), rounds_per_unit=2)
    found, told = noted(as_before, kept)
    assert (found.recorded, told) == ((kept,), [])
    for row, pairs in ((replace(as_before, record_bytes=10_240), kept), (as_before, replace(kept, declared=""))):
        found, told = noted(row, pairs)
        assert found.recorded == ()
        assert told[0].startswith("batch-1k: its recorded A/A pairs do not count: they are of another declaration")


CPU = "broker_cpu_us_per_record"
BY_RATIOS = ReferenceStopRule(load_ratios(Path(__file__).parents[3] / "perfgate" / "catalogue"))


Beside = Callable[..., tuple[Comparing, Compared, list[str]]]


@pytest.fixture
def compared_beside_prometheus(clock: Clock, part_by: Callable[..., None]) -> Beside:
    """Return what compares a scenario capped at 1,000/s with itself; windows below 5 s tell no CPU of brokers."""

    def compared(
        rate: float, stop: ComparisonStopRule, decides: Deciding = AS_USUAL
    ) -> tuple[Comparing, Compared, list[str]]:
        clock.now, said, noise = 0.0, list[str](), iter(range(1000))

        def part(row: Compared, _benches: object, _switch: object, _left: float, order: str) -> str:
            row.part_s = 10.0
            clock.now += 60 if row.window_s < 5 and rate > 900 else 10  # what is to be dropped was measured again, too
            for rounds in row.rounds.values():
                found = one_round(len(rounds) + 1, rate)
                scraped = row.window_s >= 5
                cpu = {CPU: 50.0 + 0.1 * (next(noise) % 3)} if scraped else {}
                rounds.append(replace(found, metrics={"records_per_s": rate, "latency_ms.p99": 5.0} | cpu))
            return order

        part_by(part)
        capped = replace(scenario(), load=Load(kind="capped", rate=1000.0))
        row = Compared({"A": capped, "B": capped}, "turns", 1, decides=decides)
        made = comparing(Change(name="nothing"), capped, said=said, stop=stop, decides=decides, usage_window_s=5.0)
        made._until_decided([row], 109.0, {}, Switch())
        return made, row, said

    return compared


@pytest.mark.parametrize("stop", [SequentialStopRule(), BY_RATIOS], ids=["comparison", "reference"])
@pytest.mark.parametrize("rate", [1000.0, 990.0])
def test_brokers_cpu_from_a_prometheus_decides_where_both_sides_reach_the_cap(
    compared_beside_prometheus: Beside, stop: ComparisonStopRule, rate: float
) -> None:
    """It ended INVALID: no turn of a second holds four scrapes. A gate with a reference went by the rate alone."""
    made, row, said = compared_beside_prometheus(rate, stop)
    outcome = judge_comparison(made._comparison(row))
    assert (outcome.effect, outcome.primary and outcome.primary.metric.name) == (Effect.SAME, CPU)
    assert row.planned == 10, "of the units as long as they are now"
    assert row.units >= 4, "what was lost makes them no longer"
    assert [len(rounds) for rounds in row.discarded.values()] == [1, 1], "the first, which showed the cap"
    words = "brokers' CPU decides, which takes windows of 5 s to tell: a unit takes 0.3 min or more"
    assert said == [f"{row.name}: {words}"]


def test_time_that_one_scenario_does_not_need_goes_to_those_that_are_not_decided(
    clock: Clock, part_by: Callable[..., None]
) -> None:
    """Half of the budget was left, and the scenario that it would have decided INCONCLUSIVE."""
    noise = {name: iter(np.random.default_rng(3).normal(0, 0.05, 1000)) for name in ("clear", "close")}
    clock.now = 0.0

    def part(row: Compared, _benches: object, _switch: object, _left: float, order: str) -> str:
        row.part_s = 10.0
        clock.now += 10
        for side, rounds in row.rounds.items():
            loss = {"clear": 0.5, "close": 0.94}[row.name] if side == "B" else 1.0
            found = one_round(len(rounds) + 1, rate := 1000 * loss * math.exp(next(noise[row.name])))
            rounds.append(replace(found, metrics={"records_per_s": rate}))
        return order

    part_by(part)
    rows = [
        Compared({side: replace(scenario(), name=name) for side in "AB"}, "turns", 1) for name in ("clear", "close")
    ]
    made = comparing(Change(name="x"), *(row.sides["A"] for row in rows))
    made._until_decided(rows, 600.0, {}, Switch())
    clear, close = rows
    assert (clear.former, clear.planned) == ([], 30)
    assert clear.units < 10
    assert close.former == [30]
    assert close.units > 30
    assert clock.now <= 600
    comparison = made._comparison(close)
    assert (comparison.former_plans, comparison.planned_units) == ((30,), close.planned)
    assert judge_comparison(comparison).effect is Effect.SLOWER


def test_turns_stay_short_where_the_rate_decides(compared_beside_prometheus: Beside) -> None:
    made, row, said = compared_beside_prometheus(800.0, SequentialStopRule())
    assert not said
    assert not row.discarded["A"]
    assert judge_comparison(made._comparison(row)).effect is Effect.SAME


def test_rates_that_may_come_to_the_cap_are_measured_in_long_windows_from_the_first_on(
    compared_beside_prometheus: Beside,
) -> None:
    """Turns of a second took 0.97 of the cap until the seventh burst; the budget was spent when they were dropped."""
    made, row, said = compared_beside_prometheus(950.0, SequentialStopRule())
    assert len(said) == 1
    outcome = judge_comparison(made._comparison(row))
    assert (outcome.effect, outcome.primary and outcome.primary.metric.name) == (Effect.SAME, "records_per_s")


def test_a_run_asked_to_decide_by_brokers_cpu_measures_no_short_turn(
    compared_beside_prometheus: Beside,
) -> None:
    _, row, said = compared_beside_prometheus(900.0, SequentialStopRule(), Deciding(metrics=(CPU,)))
    assert len(said) == 1
    assert not row.discarded["A"]


def test_a_budget_that_is_too_short_for_the_scrapes_is_told(compared_beside_prometheus: Beside) -> None:
    _, row, said = compared_beside_prometheus(800.0, SequentialStopRule())
    asked = comparing(Change(name="nothing"), said=said, decides=Deciding(metrics=(CPU,)), usage_window_s=75.0)
    assert asked._lengthened(row, 600.0)
    assert said[0].endswith(
        "5.0 min or more; 4 units, which a decision needs, take longer than the budget: raise --budget"
    )


def test_a_unit_that_failed_is_kept_when_windows_would_be_lengthened(
    compared_beside_prometheus: Beside,
) -> None:
    """Records that the candidate had lost were forgotten with the short windows, and the verdict was SAME."""
    made, row, said = compared_beside_prometheus(800.0, SequentialStopRule())
    for side, lost in (("A", ()), ("B", ("records unaccounted",))):
        row.rounds[side][:] = [flawed(one_round(1, 1000.0), invalid=lost, broken=lost)]
    row.window_s = 0.0
    assert not made._lengthened(row, 600.0)
    assert made._decided(row, 0)
    outcome = judge_comparison(made._comparison(row))
    assert outcome.effect is not Effect.SAME
    assert not said


def test_one_scenario_that_states_the_setting_itself_sends_no_other_to_pairs() -> None:
    """num.network.threads of the nightly went by pairs of clusters everywhere, for one scenario that states it."""
    stating, said = scenario("network-threads-8"), list[str]()
    stating = replace(stating, cluster=replace(stating.cluster, config=(("num.network.threads", "8"),)))
    rows = [scenario("batch-1k"), stating, scenario("acks-all")]
    measured: list[tuple[str, list[str], float]] = []

    def measure(method: str, here: Sequence[Compared], budget_s: float) -> None:
        measured.append((method, [row.name for row in here], budget_s))
        for row in here:
            row.seconds = 20.0

    class Noted(Comparing):
        def _alternate(self, comparisons: Sequence[Compared], budget_s: float) -> None:
            measure("_alternate", comparisons, budget_s)

        def _pairs(self, comparisons: Sequence[Compared], budget_s: float) -> None:
            measure("_pairs", comparisons, budget_s)

    change = Change(name="x", changes=(("broker.num.network.threads", "4"),))
    comparing(change, *rows, kind=Noted, said=said).compare(scenario("batch-1k"))
    assert measured == [("_alternate", ["batch-1k", "acks-all"], 60.0), ("_pairs", ["network-threads-8"], 50.0)]
    (note,) = said
    assert note.startswith("network-threads-8: brokers take this change at their start only, or these scenarios state")


def test_an_interrupted_comparison_is_there_as_far_as_it_went() -> None:
    """A night against a reference that was stopped in its last minutes left nothing."""
    world = World()

    class Interrupted(Comparing):
        def _alternate(self, comparisons: Sequence[Compared], budget_s: float) -> None:
            comparisons[0].orders += ["ABBA"] * 3
            raise KeyboardInterrupt

    made = comparing(Change(name="x"), scenario("batch-1k"), scenario("acks-all"), kind=Interrupted, world=world)
    with pytest.raises(KeyboardInterrupt):
        made.compare(scenario("batch-1k"))
    so_far = made.so_far(scenario("batch-1k"))
    assert so_far is not None
    assert (so_far.baseline.scenario.name, so_far.orders) == ("batch-1k", ("ABBA",) * 3)
    assert made.so_far(scenario("acks-all")) is None
    assert [line.split()[1] for line in world.lines] == ["close"]


@pytest.mark.parametrize("second", ["_change_live", "_begun", "_alternate"])
def test_what_later_brokers_do_not_take_leaves_the_answers_of_those_before(second: str) -> None:
    """An hour of answers was lost, as wrong usage, where the last scenario stated the setting itself."""
    rows = [replace(scenario(name), cluster=ClusterSpec(brokers=n)) for name, n in (("a", 3), ("b", 1))]
    calls = list[str]()

    class Measured(Comparing):
        def _alternate(self, comparisons: Sequence[Compared], budget_s: float) -> None:
            for rounds in comparisons[0].rounds.values():
                rounds.append(one_round(1, 1000.0))

    whole = getattr(Measured, second)

    def refused_the_second_time(self: Comparing, *given: Any, **named: Any) -> Any:
        calls.append(second)
        if len(calls) == 2:
            raise ConfigurationError("real brokers are not restarted for it")
        return whole(self, *given, **named)

    kind = type("Refused", (Measured,), {second: refused_the_second_time})
    made = comparing(Change(name="x", changes=(("broker.y", "1"),)), *rows, kind=kind, budget_s=600.0)
    first, other = made.compare(rows[0]), made.compare(rows[1])
    assert first.baseline.rounds == first.candidate.rounds == (one_round(1, 1000.0),)
    undecided = [*other.baseline.rounds, *other.candidate.rounds]
    assert [one.invalid for one in undecided] == [("real brokers are not restarted for it",)] * 2
    assert not any(one.broken for one in undecided)


def test_a_setting_that_the_changed_brokers_do_not_know_is_an_error_before_they_are_measured() -> None:
    """On pairs of clusters Kafka read it and forgot it: SAME."""
    change = Change(name="x", on_pairs=True, changes=(("broker.log.message.downconversion.enable", "false"),))
    world = World(unknown={"cluster-2": {"log.message.downconversion.enable"}})  # the changed brokers are asked
    made = comparing(change, world=world)
    with pytest.raises(ConfigurationError, match=r"do not know log\.message\.downconversion\.enable$"):
        made._pair([Compared({"A": scenario(), "B": scenario()}, "pairs", 1, 6)], "AB", 60.0)
    assert len(world.clusters) == 2
    assert not any("load" in line for line in world.lines), "nothing was measured"


@pytest.mark.parametrize("first", ["AB", "BA"])
def test_brokers_that_refuse_to_start_with_the_change_are_broken_on_its_side(first: str) -> None:
    """It was wrong usage, exit code 2, with no verdict on the change."""
    world = World()
    made = comparing(Change(name="x", changes=(("cluster.jvm", ("-XX:+NoSuchOption",)),)), world=world)
    compared = Compared({"A": scenario(), "B": scenario()}, "pairs", 1, 6)
    target: Any = made.setup.target
    starts = {"A": target.cluster, "B": Mock(side_effect=StartRefusedError("Unrecognized VM option"))}
    target.cluster, target.beside = (starts[side] for side in first)
    made._pair([compared], first, 60.0)
    assert [one.broken for one in compared.rounds["B"]] == [("target unhealthy: Unrecognized VM option",)]
    assert not compared.rounds["A"]


def test_brokers_that_refuse_to_start_as_declared_are_wrong_usage() -> None:
    world = World()
    made = comparing(Change(name="x", changes=(("cluster.jvm", ("-Xmx1g",)),)), world=world)
    target: Any = made.setup.target
    target.cluster = Mock(side_effect=StartRefusedError("refused"))
    with pytest.raises(StartRefusedError):
        made._pair([Compared({"A": scenario(), "B": scenario()}, "pairs", 1, 6)], "AB", 60.0)


RESTARTED = Change(name="x", changes=(("cluster.version", "3.9.1"),))


def test_pairs_that_can_no_longer_be_started_are_not_tried_until_the_budget_is_over() -> None:
    """An engine of containers that had ended refused the start at once: it was asked again for all of ten minutes."""
    world = World(script={"start": dict.fromkeys(range(3, 200), "sick")})
    with world.running():
        found = comparing(RESTARTED, world=world, budget_s=1200.0).compare(scenario())
    assert world.done["start"] == 4, "those of one pair, and the first of two others"
    assert len(found.orders) == 1
    assert not judge_comparison(found).effect.green


def test_a_first_pair_that_cannot_be_started_is_no_verdict() -> None:
    """As in a gate: INVALID, exit 6, is what CI lets pass."""
    world = World(script={"start": {1: "sick"}})
    with world.running(), pytest.raises(ConfigurationError, match="no cluster could be started"):
        comparing(RESTARTED, world=world).compare(scenario())


def test_memory_of_brokers_that_serve_both_sides_decides_nothing() -> None:
    """It was the SAME by construction, whatever the change did."""
    setup: Any = Mock(target_facts={}, cannot=lambda _: None, form=changed)
    asked = Deciding(metrics=("broker_rss_mib.max",))
    lz4 = Change(name="lz4", changes=(("producer.compression.type", "lz4"),))
    why = cannot_be_compared(scenario(), lz4, setup, asked, against=False)
    assert (why or "").startswith("broker_rss_mib.max cannot decide: the same brokers serve both sides")
    assert cannot_be_compared(scenario(), replace(lz4, on_pairs=True), setup, asked, against=False) is None
    assert cannot_be_compared(scenario(), lz4, setup, asked, against=True) is None


def test_a_scenario_that_a_change_does_not_fit_is_not_compared_and_the_others_are() -> None:
    """An ack quorum of three, which a topic of one copy cannot have, ended the comparison of all."""
    setup: Any = Mock(target_facts={}, cannot=lambda _: None)
    setup.form.side_effect = ConfigurationError("batch-1k: quorums 3/1/3 (ensemble, write, ack) must not rise")
    quorum = Change(name="all copies", changes=(("topic.ack-quorum", 3),))
    why = cannot_be_compared(scenario(), quorum, setup, AS_USUAL, against=False)
    assert why == "quorums 3/1/3 (ensemble, write, ack) must not rise"


def test_two_clusters_differ_whatever_a_change_of_clients_leaves_as_it_is() -> None:
    """They were not run because there would be nothing to compare, and the night was green without them."""
    setup: Any = Mock(target_facts={}, cannot=lambda _: None, form=changed)
    same = Change(name="acks", changes=(("producer.acks", dict(scenario().producer).get("acks", "1")),))
    reads = Change(name="fetch", changes=(("consumer.fetch.min.bytes", "1024"),))
    for change in (same, reads):
        assert cannot_be_compared(scenario(), change, setup, AS_USUAL, against=False)
        assert cannot_be_compared(scenario(), change, setup, AS_USUAL, against=True) is None


@pytest.mark.parametrize(
    ("stated", "setting", "value", "own"),
    [
        ({"flush.messages": "10000"}, "log.flush.interval.messages", "1", "flush.messages"),
        ({"min.insync.replicas": "2"}, "min.insync.replicas", "1", "min.insync.replicas"),
        ({"retention.ms": "1000"}, "log.retention.hours", "1", "retention.ms"),
        ({"segment.bytes": "1048576"}, "log.segment.bytes", "2097152", "segment.bytes"),
        ({"min.compaction.lag.ms": "1"}, "log.cleaner.min.compaction.lag.ms", "2", "min.compaction.lag.ms"),
        ({"flush.ms": "1000"}, "log.flush.interval.messages", "1", ""),
        ({"flush.ms": "1000"}, "log.flush.scheduler.interval.ms", "1000", ""),
        ({"num.io.threads": "2"}, "num.network.threads", "2", ""),
    ],
)
def test_a_setting_of_brokers_that_the_topic_states_itself_is_not_compared(
    stated: dict[str, str], setting: str, value: str, own: str
) -> None:
    """Kafka went by the topic's value on both sides, and the answer was SAME."""
    setup: Any = Mock(target_facts={}, cannot=lambda _: None, form=changed)
    row = replace(scenario(), topic=replace(scenario().topic, config=settings(stated)))
    change = Change(name="x", changes=((f"broker.{setting}", value),))

    def why(row: Scenario, change: Change) -> str | None:
        return cannot_be_compared(row, change, setup, AS_USUAL, against=False)

    said = f"its topic states {own} itself, whatever the brokers' setting is: ask by [topic]"
    assert why(row, change) == (said if own else None)
    assert why(scenario(), change) is None, "without it the brokers' value is in force"
    both = replace(change, changes=(*change.changes, ("broker.num.io.threads", "2")))
    assert why(row, both) is None, "the other setting is compared"
    reads = replace(row, consumers=Consumers(membership="group"))
    assert (why(reads, change) is None) is (not own or own.startswith("flush.")), "groups' own topic is flushed, too"


def test_what_one_cluster_leaves_of_the_budget_goes_to_the_next() -> None:
    """It was decided after 20 of 200 s; the others had 200 s each, as if nothing were left."""
    rows = [replace(scenario(name), cluster=ClusterSpec(brokers=n)) for name, n in (("a", 3), ("b", 1), ("c", 1))]
    given: list[float] = []

    class Short(Comparing):
        def _alternate(self, comparisons: Sequence[Compared], budget_s: float) -> None:
            given.append(budget_s)
            for row in comparisons:
                row.seconds = 20.0

    comparing(Change(name="x"), *rows, kind=Short, budget_s=600.0).compare(rows[0])
    assert given == [200.0, 580.0]


@pytest.mark.parametrize(("declared", "changed_to"), [(1, 3), (3, 1)])
def test_a_limit_that_allows_more_replicas_fewer_records_is_the_same_on_both_sides(
    declared: int, changed_to: int
) -> None:
    """Each side had a cap of its own: three replicas at 20,184/s were SLOWER than one at 60,553, by the limit alone."""
    begun = list[Compared]()

    class Noted(Comparing):
        def _alternate(self, comparisons: Sequence[Compared], budget_s: float) -> None:
            begun.extend(comparisons)

    def limited(row: Scenario) -> Scenario:
        return at_most(row, 60 * 2**20)

    topic = TopicSpec(partitions=6, replication_factor=declared)
    row = limited(replace(scenario(), topic=topic, load=Load(kind="capped", rate=102_400.0)))
    change = Change(name="replicas", changes=(("topic.replicas", changed_to),))
    comparing(change, row, kind=Noted, limited=limited).compare(row)
    assert [round(form.load.rate) for form in begun[0].sides.values()] == [20_184, 20_184]
    assert [form.topic.replication_factor for form in begun[0].sides.values()] == [declared, changed_to]


class Warm(Comparing):
    """Brokers that need no warm-up."""

    def _warm(self, *_: object, **__: object) -> Any:
        return Mock()


def test_a_change_by_hand_is_reverted_before_the_next_brokers_are_measured() -> None:
    """The brokers died while it was applied; the next scenarios' "as declared" was measured with it."""
    outside = Mock(rehearsals=0)
    outside.change.return_value = outside.restore.return_value = 0.1

    class BrokersDie(Warm):
        def _until_decided(self, _comparisons: object, _deadline: float, _benches: object, switch: Switch) -> None:
            switch.to("B")
            raise TargetError("broker 1 was killed by signal -9")

    row = Compared({"A": scenario(), "B": scenario()}, "rounds", 2)
    comparing(Change(name="bios"), kind=BrokersDie, outside=outside)._alternate([row], 60.0)
    assert row.unsound
    outside.restore.assert_called_once()


def test_what_cannot_be_reverted_is_measured_no_further() -> None:
    outside = Mock(rehearsals=0)
    outside.change.return_value, outside.restore.side_effect = 0.1, TargetError("nobody answered")

    class Reverts(Warm):
        def _until_decided(self, _comparisons: object, _deadline: float, _benches: object, switch: Switch) -> None:
            switch.to("B")
            switch.to("A")

    first, second = (Compared({"A": scenario(), "B": scenario()}, "rounds", 2) for _ in range(2))
    made = comparing(Change(name="bios"), kind=Reverts, outside=outside)
    made._alternate([first], 60.0)
    made._alternate([second], 60.0)
    assert first.unsound
    (reason,) = second.rounds["A"][0].invalid
    assert reason == "target unhealthy: the change before could not be taken back: nobody answered"
