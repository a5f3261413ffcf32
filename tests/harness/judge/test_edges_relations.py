"""Relations, caps and load hosts at their edges: equal to a bound, one error off, half of a buffer, below a cap."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.claims.more_hosts import BROKERS_CPU, host_doubts, more_hosts, most_ratio
from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.gate_stop import GateStopRule
from perfgate.judge.outliers import differing_hosts, differing_partitions
from perfgate.judge.rounds import since_the_start
from perfgate.judge.scenario_case import judge_scenario, no_longer_taken, shows_nothing
from perfgate.judge.statistics import error_factor
from perfgate.model import (
    Consumers,
    Fault,
    FaultScenario,
    Load,
    Measurement,
    Outcome,
    PairRelation,
    PartitionFigures,
    RangeRelation,
    Round,
    Threshold,
    Verdict,
)
from perfgate.model.errors import ConfigurationError
from perfgate.model.flaw import Doubt
from tests.harness.build import flawed, histogram, measurement, one_round, profile, relation, scenario, threshold
from tests.harness.build.hosts import report
from tests.harness.judge.test_ranges import shape

RATE, CPU = threshold("records_per_s", 1000.0), threshold("broker_cpu_us_per_record", 50.0)
UNCAPPED = Load(kind="capped", rate=1e9)
FAULT = Fault(kind="kill-leader")


def of(rates: Sequence[float], name: str, load: Load = UNCAPPED, **changes: Any) -> Measurement:
    found = measurement(rates, name, **changes)
    return replace(found, scenario=replace(found.scenario, load=load))


def judged(held: PairRelation, fast: Sequence[float], slow: Sequence[float] | None = None) -> Outcome:
    return judge_relation(held, {"fast": of(fast, "fast"), "slow": of(slow or [100.0] * len(fast), "slow")})


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((2.0, 2.0, 2.0), Verdict.PASS),
        ((1.99, 1.99, 1.99), Verdict.REGRESSED),
        ((2.03, 2.05, 2.07), Verdict.PASS),
        ((1.99, 2.01, 2.03), Verdict.INCONCLUSIVE),
        ((1.97, 1.99, 2.01), Verdict.INCONCLUSIVE),
        ((1.94, 1.96, 2.0), Verdict.REGRESSED),
        ((4.0, 4.0, 4.0), Verdict.PASS),
        ((4.01, 4.01, 4.01), Verdict.REGRESSED),
        ((3.93, 3.95, 3.97), Verdict.PASS),
        ((3.97, 3.99, 4.01), Verdict.INCONCLUSIVE),
        ((3.99, 4.01, 4.03), Verdict.INCONCLUSIVE),
        ((4.0, 4.04, 4.06), Verdict.REGRESSED),
    ],
)
def test_a_ratio_keeps_a_bound_by_its_error_or_breaks_it_by_that(ratios: tuple[float, ...], verdict: Verdict) -> None:
    """Three that are 0.02 apart have a median with an error of 0.0145."""
    assert judged(relation(2.0, at_most=4.0), [100.0 * ratio for ratio in ratios]).verdict is verdict


@pytest.mark.parametrize("ratio", [1.0, 3.0, 5.0])
def test_one_pair_of_rounds_decides_nothing(ratio: float) -> None:
    """A fault is done once in the smoke tier, and its round counts by itself."""
    rounds = {"fast": of([100.0 * ratio], "fast"), "slow": of([100.0], "slow")}
    sides = {name: replace(one, scenario=FaultScenario.of(one.scenario, FAULT)) for name, one in rounds.items()}
    found = judge_relation(relation(2.0, at_most=4.0), sides)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.judgements[0].measured == ratio
    assert found.reasons == ("one round has no error: more of them decide",)


@pytest.mark.parametrize(("low", "verdict"), [(1, Verdict.PASS), (2, Verdict.INCONCLUSIVE)])
def test_two_rounds_of_six_beyond_a_bound_are_too_many(low: int, verdict: Verdict) -> None:
    found = judged(relation(2.0), [190.0] * low + [300.0] * (6 - low))
    assert found.verdict is verdict
    high = judged(relation(2.0, at_most=4.0), [410.0] * low + [300.0] * (6 - low))
    assert high.verdict is verdict


def test_a_bound_is_of_the_metric_that_it_names_whichever_way_is_better() -> None:
    held = relation(1.5, "broker_cpu_us_per_record", at_most=3.0)
    for cpu_us, verdict in ((100.0, Verdict.PASS), (70.0, Verdict.REGRESSED), (160.0, Verdict.REGRESSED)):
        fast, slow = of([100.0] * 3, "fast", cpu_us=cpu_us), of([100.0] * 3, "slow")
        assert judge_relation(held, {"fast": fast, "slow": slow}).verdict is verdict


@pytest.mark.parametrize(
    ("fast_cap", "slow_cap", "ratio", "verdict"),
    [
        (None, None, 3.0, Verdict.PASS),
        (True, None, 3.0, Verdict.PASS),
        (True, None, 1.5, Verdict.INCONCLUSIVE),
        (None, True, 1.5, Verdict.REGRESSED),
        (None, True, 5.0, Verdict.INCONCLUSIVE),
        (True, None, 5.0, Verdict.REGRESSED),
    ],
)
def test_a_cap_excuses_the_side_that_it_holds_in_the_direction_in_which_it_holds_it(
    fast_cap: bool | None, slow_cap: bool | None, ratio: float, verdict: Verdict
) -> None:
    fast, slow = 100.0 * ratio, 100.0
    sides = {
        "fast": of([fast] * 3, "fast", Load(kind="capped", rate=fast if fast_cap else 1e9)),
        "slow": of([slow] * 3, "slow", Load(kind="capped", rate=slow if slow_cap else 1e9)),
    }
    assert judge_relation(relation(2.0, at_most=4.0), sides).verdict is verdict


@pytest.mark.parametrize(("share", "capped"), [(0.98, True), (0.979, False)])
def test_a_load_is_at_its_cap_from_98_percent_of_it_on(share: float, capped: bool) -> None:
    sides = {
        "fast": of([150.0] * 3, "fast", Load(kind="capped", rate=150.0 / share)),
        "slow": of([100.0] * 3, "slow"),
    }
    verdict = judge_relation(relation(2.0), sides).verdict
    assert verdict is (Verdict.INCONCLUSIVE if capped else Verdict.REGRESSED)


def test_rounds_are_paired_by_their_numbers_and_a_pair_is_no_spread() -> None:
    fast, slow = of([200.0, 400.0, 300.0], "fast"), of([100.0, 200.0, 150.0], "slow")
    found = judge_relation(relation(1.99), {"fast": fast, "slow": slow})
    assert (found.paired, found.rounds) == (True, (2.0, 2.0, 2.0))
    assert found.verdict is Verdict.PASS
    other = replace(slow, scenario=replace(slow.scenario, cluster=replace(slow.scenario.cluster, brokers=5)))
    apart = judge_relation(relation(1.99), {"fast": fast, "slow": other})
    assert not apart.paired
    assert apart.rounds == pytest.approx((4 / 3, 8 / 3, 2.0))
    assert apart.verdict is Verdict.INCONCLUSIVE


def test_a_step_of_a_range_is_one_of_several_looks() -> None:
    """A pair that is red by itself is in doubt as one of four steps: chance has four tries."""
    rates = [188.0, 196.0, 199.0]
    alone = judged(relation(2.0), rates)
    assert alone.verdict is Verdict.REGRESSED
    held: RangeRelation = shape(turn=4, at_least=1.0, step_at_least=2.0, at_most=50.0)
    levels = {"p1": [100.0] * 3, "p3": rates, "p6": [450.0] * 3, "p9": [1000.0] * 3, "p50": [2200.0] * 3}
    found = judge_relation(held, {name: of(values, name) for name, values in levels.items()})
    assert Verdict.REGRESSED not in {step.verdict for step in found.steps}
    assert found.verdict is Verdict.INCONCLUSIVE


def on(hosts: int, rates: Sequence[float], cpu: float | None = None, pushback: float = 0.1) -> tuple[Round, ...]:
    """Return rounds on so many load hosts, whose brokers used so many cores."""
    reports = tuple(replace(report(f"load-{n}", 1000, 0.01), pushback_share=pushback) for n in range(hosts))
    more = {} if cpu is None else {BROKERS_CPU: cpu}
    rounds = [replace(one_round(n, rate), hosts=reports) for n, rate in enumerate(rates, 1)]
    return tuple(replace(r, metrics={**r.metrics, **more}) for r in rounds)


def asked(whole: Sequence[float], fewer: Sequence[float], hosts: int = 3, **changes: Any) -> Measurement:
    """Return a load that was measured on one host fewer too; `cpu`: of the brokers on all hosts and on one fewer."""
    cpu = changes.pop("cpu", (None, None))
    load = changes.pop("load", UNCAPPED)
    found = replace(
        measurement(whole),
        rounds=on(hosts, whole, cpu[0], **changes),
        one_host_fewer=on(hosts - 1, fewer, cpu[1], **changes),
    )
    return replace(found, scenario=replace(found.scenario, load=load))


@pytest.mark.parametrize(
    ("ratios", "finding"),
    [
        ((1.05, 1.05, 1.05), "confirmed"),
        ((1.051, 1.051, 1.051), "saturated"),
        ((1.0, 1.02, 1.04), "confirmed"),
        ((1.02, 1.04, 1.06), "unknown"),
        ((1.04, 1.06, 1.08), "unknown"),
        ((1.045, 1.07, 1.09), "saturated"),
        ((0.5, 0.5, 0.5), "confirmed"),
    ],
)
def test_one_host_more_makes_no_difference_within_the_margin_less_the_error(
    ratios: tuple[float, ...], finding: str
) -> None:
    found = more_hosts(asked([100.0 * ratio for ratio in ratios], [100.0] * 3))
    assert found is not None
    assert found.finding == finding
    assert found.at_most == pytest.approx(1.05)


@pytest.mark.parametrize(("high", "finding"), [(1, "confirmed"), (2, "unknown")])
def test_two_rounds_of_six_that_rose_are_too_many(high: int, finding: str) -> None:
    found = more_hosts(asked([106.0] * high + [100.0] * (6 - high), [100.0] * 6))
    assert found is not None
    assert found.finding == finding


@pytest.mark.parametrize(("hosts", "most"), [(2, 1.05), (10, 1.05), (11, 1.0488), (30, 1.0171)])
def test_of_many_hosts_half_of_what_one_more_adds_is_no_rise(hosts: int, most: float) -> None:
    found = asked([100.0] * 3, [100.0] * 3, hosts)
    assert most_ratio(found) == pytest.approx(most, abs=1e-4)


@pytest.mark.parametrize(("cpu", "finding"), [(1.05, "unknown"), (1.06, "saturated"), (None, "saturated")])
def test_brokers_that_took_more_with_as_much_cpu_may_be_the_limit(cpu: float | None, finding: str) -> None:
    found = more_hosts(asked([120.0] * 3, [100.0] * 3, cpu=(cpu, None if cpu is None else 1.0)))
    assert found is not None
    assert found.finding == finding


@pytest.mark.parametrize(("share", "finding"), [(0.98, "confirmed"), (0.979, "saturated")])
def test_a_load_at_its_own_cap_is_limited_by_that(share: float, finding: str) -> None:
    found = more_hosts(asked([120.0] * 3, [100.0] * 3, load=Load(kind="capped", rate=120.0 / share)))
    assert found is not None
    assert found.finding == finding


@pytest.mark.parametrize(("pushback", "factor"), [(0.5, 1.2), (0.49, None)])
def test_saturated_hosts_explain_all_unless_their_buffers_were_full_for_half_of_the_time(
    pushback: float, factor: float | None
) -> None:
    (doubt,) = host_doubts(asked([120.0] * 3, [100.0] * 3, pushback=pushback))
    assert doubt.factor == (None if factor is None else pytest.approx(factor))


def test_a_rate_that_some_rounds_lack_says_nothing_of_hosts() -> None:
    whole = asked([100.0] * 3, [100.0] * 3)
    cut = replace(whole, one_host_fewer=whole.one_host_fewer[:2])
    assert (found := more_hosts(cut))
    assert (found.finding, "in 2 of 3 rounds of both" in found.words) == ("unknown", True)
    wrong = flawed(whole.one_host_fewer[0], invalid=("a flaw",))
    spoilt = replace(whole, one_host_fewer=(wrong, *whole.one_host_fewer[1:]))
    assert (found := more_hosts(spoilt))
    assert "round 1 on 2 load hosts: a flaw" in found.words


def at_rate(held_at: float, offered: float, measured: float, held: Threshold = RATE) -> Verdict:
    """Return the verdict over a figure of a paced load, whose threshold was recorded at another rate."""
    row = replace(scenario(), load=Load(kind="paced", rate=offered))
    found = [replace(one_round(n, offered), metrics={held.metric.name: measured}) for n in (1, 2, 3)]
    taken = replace(measurement([1.0]), scenario=row, rounds=tuple(found))
    return judge_scenario(taken, profile(replace(held, rate=held_at))).judgements[0].verdict


P99 = threshold("latency_ms.p99", 10.0, 0.5)


@pytest.mark.parametrize(
    ("offered", "measured", "verdict"),
    [
        (800.0, 10.0, Verdict.PASS),
        (799.0, 10.0, Verdict.INCONCLUSIVE),
        (1200.0, 10.0, Verdict.PASS),
        (1200.0, 16.0, Verdict.REGRESSED),
        (1201.0, 10.0, Verdict.PASS),
        (1201.0, 16.0, Verdict.INCONCLUSIVE),
        (1201.0, 19.0, Verdict.REGRESSED),
        (799.0, 16.0, Verdict.REGRESSED),
    ],
)
def test_a_threshold_of_another_rate_is_one_of_a_fifth_more_or_less(
    offered: float, measured: float, verdict: Verdict
) -> None:
    """Less load hides slow brokers, and makes none; more explains as much as it is more."""
    assert at_rate(1000.0, offered, measured, P99) is verdict


@pytest.mark.parametrize(("offered", "verdict"), [(900.0, Verdict.PASS), (899.0, Verdict.INCONCLUSIVE)])
def test_it_is_nearer_where_the_limit_is(offered: float, verdict: Verdict) -> None:
    assert at_rate(1000.0, offered, 50.0, CPU) is verdict


def lower_cap(cap: float, rate: float) -> Verdict:
    found = of([rate] * 3, "batch-1k", Load(kind="capped", rate=cap))
    return judge_scenario(found, profile(RATE)).judgements[0].verdict


@pytest.mark.parametrize(
    ("cap", "rate", "verdict"),
    [
        (800.0, 800.0, Verdict.INCONCLUSIVE),
        (800.0, 784.0, Verdict.INCONCLUSIVE),
        (800.0, 783.0, Verdict.REGRESSED),
        (900.0, 899.0, Verdict.REGRESSED),
        (899.0, 899.0, Verdict.INCONCLUSIVE),
    ],
)
def test_a_cap_below_the_stored_limit_is_the_reason_where_the_load_came_to_it(
    cap: float, rate: float, verdict: Verdict
) -> None:
    assert lower_cap(cap, rate) is verdict


PROBES = Load(kind="paced", rate=1000.0, probes=True)


def probing(short: int, of_rounds: int = 4, load: Load = PROBES) -> Measurement:
    found = of([1000.0] * of_rounds, "batch-1k", load)
    rounds = tuple(replace(r, not_sustained="took 900" if r.index <= short else "") for r in found.rounds)
    return replace(found, rounds=rounds)


@pytest.mark.parametrize(("short", "nothing"), [(3, False), (4, True)])
def test_a_probe_tells_nothing_where_no_round_took_it(short: int, nothing: bool) -> None:
    assert bool(shows_nothing(probing(short))) is nothing
    assert not shows_nothing(probing(4, load=Load(kind="paced", rate=1000.0)))


@pytest.mark.parametrize(
    ("short", "former", "verdict"),
    [
        (4, (980.0,), Verdict.INCONCLUSIVE),
        (4, (979.0,), Verdict.MISSING),
        (4, (), Verdict.MISSING),
        (3, (980.0,), Verdict.MISSING),
        (4, (500.0, 990.0), Verdict.INCONCLUSIVE),
    ],
)
def test_a_rate_that_was_taken_before_and_in_no_round_now_is_in_doubt(
    short: int, former: tuple[float, ...], verdict: Verdict
) -> None:
    missing = Outcome(name="batch-1k", verdict=Verdict.MISSING, judgements=())
    assert no_longer_taken(missing, probing(short), former).verdict is verdict
    green = replace(missing, verdict=Verdict.PASS)
    assert no_longer_taken(green, probing(short), former) is green


@pytest.mark.parametrize(
    ("short", "verdict"), [(1, Verdict.INCONCLUSIVE), (2, Verdict.INCONCLUSIVE), (3, Verdict.REGRESSED)]
)
def test_a_paced_load_is_red_that_was_not_taken_in_most_rounds(short: int, verdict: Verdict) -> None:
    found = probing(short, load=Load(kind="paced", rate=1000.0))
    rounds = tuple(replace(r, metrics={**r.metrics, "records_per_s": 900.0}) for r in found.rounds)
    judgement = judge_scenario(replace(found, rounds=rounds), None).judgements[0]
    assert (judgement.metric, judgement.verdict) == ("records_per_s", verdict)


@pytest.mark.parametrize(("p50_ms", "told"), [(2700.0, False), (2701.0, True)])
def test_a_buffer_that_was_not_turned_over_by_the_middle_of_the_window(p50_ms: float, told: bool) -> None:
    """A warm-up of 2 s and half of a window of 2 s: nine tenths of 3 s."""
    found = of([1000.0] * 4, "batch-1k")

    def waited(count: int) -> Measurement:
        rounds = tuple(
            replace(r, warmup_s=2.0, metrics={**r.metrics, "latency_ms.p50": p50_ms if r.index <= count else 1.0})
            for r in found.rounds
        )
        return replace(found, rounds=rounds)

    assert since_the_start(waited(4)) is told
    assert since_the_start(waited(3)) is told
    assert not since_the_start(waited(2)), "half of the rounds are not most"
    whole = waited(2)
    wrong = flawed(replace(whole.rounds[0], index=5), invalid=("a flaw",))
    without = replace(whole.rounds[3], index=6, metrics={"records_per_s": 1.0})
    assert not since_the_start(replace(whole, rounds=(*whole.rounds, wrong, wrong, without))), "these say nothing"


def hosts_of(done: Sequence[Sequence[int]]) -> list[Round]:
    return [
        replace(one_round(n, 1.0), hosts=tuple(report(f"host-{h}", count, 0.01) for h, count in enumerate(counts)))
        for n, counts in enumerate(done, 1)
    ]


@pytest.mark.parametrize(
    ("slow", "others", "rounds", "told"),
    [(900, 1000, 7, True), (910, 1000, 7, False), (909, 1000, 7, True), (500, 1000, 6, False), (500, 1000, 7, True)],
)
def test_a_host_is_named_that_is_a_tenth_behind_in_more_rounds_than_chance_gives(
    slow: int, others: int, rounds: int, told: bool
) -> None:
    """Of two hosts one is the slower one of all seven rounds in 1 of 64 cases, of six in 1 of 32; at most 1 of 40."""
    found = differing_hosts(hosts_of([(others, slow)] * rounds))
    assert len([line for line in found if "the fewest" in line]) == told
    mixed = hosts_of([(others, slow)] * (rounds - 1) + [(slow, others)])
    assert not [line for line in differing_hosts(mixed) if "the fewest" in line]


@pytest.mark.parametrize(("rounds", "told"), [(4, False), (5, True)])
def test_a_broker_is_named_whose_partitions_are_the_worst_beyond_chance(rounds: int, told: bool) -> None:
    """Of five brokers one is it in five rounds in 1 of 625 cases, in four in 1 of 125; at most 1 of 400."""
    parts = tuple(
        PartitionFigures(leader=leader, records_per_s=80.0 if leader == 3 else 100.0, p99_ms=5.0)
        for leader in (1, 2, 3, 4, 5)
    )
    found = [replace(one_round(n, 1.0), partitions=parts) for n in range(1, rounds + 1)]
    assert bool(differing_partitions(found)) is told
    if told:
        assert "broker 3: the partitions that it leads have the fewest records/s" in differing_partitions(found)[0]
        moved = [
            replace(r, partitions=tuple(replace(p, leader=(p.leader + n) % 5) for p in r.partitions))
            for n, r in enumerate(found)
        ]
        assert "partition 2: it has the fewest records/s" in differing_partitions(moved)[0]
    assert histogram([0.001])


@pytest.mark.parametrize(
    ("slow", "verdict", "words"),
    [
        ((1.0, 1.0, 1.0), Verdict.PASS, ""),
        ((1.0, 0.0, 1.0), Verdict.INCONCLUSIVE, "records_per_s of slow was 0 in 1 of 3 rounds: no ratio"),
        ((1.0, 1.0), Verdict.INCONCLUSIVE, "slow was measured in 2 of 3 rounds: it scattered too much"),
    ],
)
def test_a_ratio_over_nothing_is_none(slow: tuple[float, ...], verdict: Verdict, words: str) -> None:
    found = judged(relation(1.5), (2.0, 2.0, 2.0), slow)
    assert found.verdict is verdict
    assert found.reasons == ((words,) if words else ())


def test_rounds_that_lack_the_metric_make_a_relation_invalid_or_unavailable() -> None:
    fast, slow = of([200.0] * 3, "fast"), of([100.0] * 3, "slow")
    first = replace(fast.rounds[0], metrics={"latency_ms.p99": 1.0})
    lacking = replace(fast, rounds=(first, *fast.rounds[1:]))
    found = judge_relation(relation(1.5), {"fast": lacking, "slow": slow})
    assert found.verdict is Verdict.INVALID
    assert found.reasons == ("records_per_s was measured in 2 of 3 rounds of both scenarios",)
    unavailable = replace(lacking, rounds=(replace(first, usage_unavailable="no scrape"), *fast.rounds[1:]))
    found = judge_relation(relation(1.5), {"fast": unavailable, "slow": slow})
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reasons == ("records_per_s is unavailable: no scrape",)


def test_one_round_on_another_cluster_is_no_ratio() -> None:
    fast, slow = of([20.0] * 3, "fast"), of([100.0, 100.0], "slow")
    elsewhere = replace(slow.scenario, cluster=replace(slow.scenario.cluster, brokers=5))
    one = replace(slow.rounds[1], metrics={"latency_ms.p99": 1.0})
    lacking = replace(slow, scenario=elsewhere, rounds=(slow.rounds[0], one))
    assert judge_relation(relation(1.5), {"fast": fast, "slow": lacking}).verdict is Verdict.INVALID
    whole = replace(slow, scenario=elsewhere)
    assert judge_relation(relation(1.5), {"fast": fast, "slow": whole}).verdict is Verdict.REGRESSED


def test_two_rounds_are_enough_to_know_of_load_hosts() -> None:
    found = more_hosts(asked([100.0] * 2, [100.0] * 2))
    assert found is not None
    assert found.finding == "confirmed"
    assert (alone := more_hosts(asked([100.0], [100.0])))
    assert alone.finding == "unknown"


def test_a_lower_cap_is_looked_for_in_the_rounds_that_count() -> None:
    """Two rounds at their cap; three that do not count, for all of what they lack."""
    found = of([800.0, 800.0, 100.0, 100.0, 100.0], "batch-1k", Load(kind="capped", rate=800.0))
    rounds = tuple(flawed(r, invalid=("a flaw",) if r.index > 2 else ()) for r in found.rounds)
    assert judge_scenario(replace(found, rounds=rounds), profile(RATE)).verdict is Verdict.INVALID


@pytest.mark.parametrize(("count", "looks"), [(3, 4), (7, 2), (10, 4), (3, 1)])
def test_one_of_several_looks_is_as_rare_as_one_alone(count: int, looks: int) -> None:
    """By Student's t, as scipy has it."""
    assert error_factor(count, looks) == pytest.approx(stats.t.isf(stats.t.sf(1.0, count - 1) / looks, count - 1))


@pytest.mark.parametrize("metric", ["records_per_s", "broker_cpu_us_per_record"])
@pytest.mark.parametrize(
    ("side", "ratio", "verdict"),
    [
        ("better", 1.5, Verdict.INVALID),
        ("better", 0.9, Verdict.REGRESSED),
        ("other", 1.5, Verdict.REGRESSED),
        ("other", 5.0, Verdict.INVALID),
        ("other", 8.1, Verdict.REGRESSED),
        ("better", 5.0, Verdict.REGRESSED),
    ],
)
def test_a_flaw_of_one_side_explains_a_ratio_in_one_direction(
    metric: str, side: str, ratio: float, verdict: Verdict
) -> None:
    """Between 2 and 4; a flaw explains a factor of 2: a rate that it made lower, or a cost that it made higher.

    `better`: the side whose figure, without the flaw, moves the ratio up.
    """
    above, below = 100.0 * ratio, 100.0
    if metric == "records_per_s":
        fast, slow = of([above] * 3, "fast"), of([below] * 3, "slow")
    else:
        fast, slow = (of([100.0] * 3, name, cpu_us=us) for name, us in (("fast", above), ("slow", below)))
    flawed_one = "fast" if (side == "better") == (metric == "records_per_s") else "slow"
    sides = {"fast": fast, "slow": slow}
    doubt = Doubt(kind="flaw", whose="load", text="half of it", factor=2.0)
    rounds = tuple(flawed(r, invalid=("half of it",), doubts=(doubt,)) for r in sides[flawed_one].rounds)
    sides[flawed_one] = replace(sides[flawed_one], rounds=rounds)
    assert judge_relation(relation(2.0, metric, at_most=4.0), sides).verdict is verdict


def test_hosts_that_come_and_go_are_not_compared() -> None:
    rounds = hosts_of([(1000, 500)] * 7)
    assert differing_hosts(rounds)
    other = hosts_of([(1000, 500, 1000)])
    assert not differing_hosts([*rounds, *other])
    assert not differing_hosts(hosts_of([(500,)] * 9)), "of one host there are no others"


def test_rounds_of_cold_brokers_do_not_end_a_scenario_early() -> None:
    wild = of([1000.0, 100.0, 1900.0, 500.0], "batch-1k").rounds
    rule = GateStopRule(profile=profile(RATE), rounds=4)
    assert rule.hopeless(scenario(), wild)
    cold = [replace(r, metrics={**r.metrics, "broker_compile_share.max": 0.3}) for r in wild]
    assert not rule.hopeless(scenario(), cold)
    assert not GateStopRule(profile=None, rounds=4).hopeless(scenario(), wild)


@pytest.mark.parametrize("body", ["{ at_least = 0.9, at_most = 1.0 }", "{ at_most = 1.0 }", "{}"])
def test_a_ratio_states_the_bound_of_its_good_side_and_no_other(tmp_path: Path, body: str) -> None:
    (tmp_path / "ratios.toml").write_text(f"[default]\nrecords_per_s = {body}\n")
    with pytest.raises(ConfigurationError, match="state at_least, and only that"):
        load_ratios(tmp_path)


def test_a_rate_of_one_is_not_one_of_nothing() -> None:
    assert judged(relation(1.5), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)).verdict is Verdict.REGRESSED
    assert judged(relation(1.5), (1.0, 1.0, 1.0), (1.0, 0.0, 1.0)).verdict is Verdict.INCONCLUSIVE


def test_consumers_of_which_nothing_is_known_confirm_no_load_hosts() -> None:
    found = asked([100.0] * 3, [100.0] * 3)
    read = replace(found, scenario=replace(found.scenario, consumers=Consumers(membership="group")))
    assert (told := more_hosts(read))
    assert (told.metric, told.finding) == ("received_records_per_s", "unknown")


@pytest.mark.parametrize(("received", "metric"), [(98.0, "records_per_s"), (97.9, "received_records_per_s")])
def test_consumers_that_do_not_keep_up_are_looked_at_too(received: float, metric: str) -> None:
    def with_received(rounds: tuple[Round, ...], rate: float) -> tuple[Round, ...]:
        return tuple(replace(r, metrics={**r.metrics, "received_records_per_s": rate}) for r in rounds)

    found = asked([100.0] * 3, [100.0] * 3)
    read = replace(
        found,
        scenario=replace(found.scenario, consumers=Consumers(membership="group")),
        rounds=with_received(found.rounds, received),
        one_host_fewer=with_received(found.one_host_fewer, received / 1.2),
    )
    assert (told := more_hosts(read))
    assert (told.metric, told.finding) == (metric, "confirmed" if metric == "records_per_s" else "saturated")


def test_a_host_is_compared_by_what_each_of_its_processes_did() -> None:
    """Both hosts did as much, the second one with twice the processes."""
    rounds = []
    for r in hosts_of([(1000, 1000)] * 7):
        one, other = r.hosts
        rounds.append(replace(r, hosts=(replace(one, done_by=2), replace(other, done_by=4))))
    (line,) = (line for line in differing_hosts(rounds) if "the fewest" in line)
    assert "load host host-1: its records a process are the fewest in all 7 rounds, 2 x the others'" in line
    whole = [
        replace(r, hosts=tuple(replace(h, done_by=None, processes=n + 1) for n, h in enumerate(r.hosts)))
        for r in rounds
    ]
    assert "load host host-1" in differing_hosts(whole)[0], "of all its processes where it is not said which did it"
