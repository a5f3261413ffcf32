"""Comparisons at their edges: a hair more or less than an error, an interval, a half, a look or a path allows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfgate.judge.bounds_files import Ratios, load_ratios
from perfgate.judge.claims.ratio import judge_against_reference
from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.scatter import scatter
from perfgate.model import Comparison, Deciding, Effect, Load, Measurement, RecordedPairs, Verdict, settings
from tests.harness.build import accounting
from tests.harness.build.comparisons import comparison
from tests.harness.build.units import judge_units
from tests.harness.judge.test_two_clusters import WIDE, on_two

RATE, CPU, P99 = "records_per_s", "broker_cpu_us_per_record", "latency_ms.p99"
CLIENT_CPU = "client_cpu_us_per_record"
USUAL = {RATE: 1000.0, CPU: 50.0, P99: 4.0, CLIENT_CPU: 5.0}
SHAPE = (1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0)
"""Units that scatter around 0."""
BETTER = {RATE: 1, CPU: -1, P99: -1, CLIENT_CPU: -1}


def of_units(logs: Mapping[str, Sequence[float]], **changes: Any) -> Comparison:
    """Return a comparison whose candidate's metrics are these logarithms off the baseline's, unit by unit."""
    count = len(next(iter(logs.values())))
    found = comparison(1.0, noise=(1.0,) * count, **changes)
    sides = {}
    for side in ("baseline", "candidate"):
        measured = getattr(found, side)
        rounds = []
        for at, r in enumerate(measured.rounds):
            ratios = {name: math.exp(of[at]) if side == "candidate" else 1.0 for name, of in logs.items()}
            values = {name: USUAL[name] * ratio for name, ratio in ratios.items()}
            rounds.append(replace(r, metrics={**r.metrics, **values}))
        sides[side] = replace(measured, rounds=tuple(rounds))
    return replace(found, **sides)


def logs_of(mean: float, error: float) -> list[float]:
    """Return units with this mean and this standard error, as the sequential test reckons it."""
    _, found = judge_units(SHAPE, len(SHAPE), final=True)
    return [mean + x * error / found.error for x in SHAPE]


def ratios(folder: Path, **limits: float) -> Ratios:
    names = {"rate": RATE, "cpu": CPU, "p99": P99}
    lines = [f'"{names[key]}" = {{ at_{"least" if key == "rate" else "most"} = {limits[key]} }}' for key in limits]
    (folder / "ratios.toml").write_text("\n".join(["[default]", *lines]))
    return load_ratios(folder)


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        (-2.0, Verdict.REGRESSED),
        (-1.05, Verdict.REGRESSED),
        (-0.95, Verdict.INCONCLUSIVE),
        (0.0, Verdict.INCONCLUSIVE),
        (0.95, Verdict.INCONCLUSIVE),
        (1.05, Verdict.PASS),
        (4.0, Verdict.PASS),
    ],
)
@pytest.mark.parametrize(("metric", "key", "limit"), [(RATE, "rate", 0.95), (CPU, "cpu", 1.1), (P99, "p99", 1.5)])
def test_a_ratio_within_one_error_of_its_limit_is_neither_kept_nor_broken(
    errors: float, verdict: Verdict, metric: str, key: str, limit: float, tmp_path: Path
) -> None:
    """So many standard errors on the good side of the limit, whichever side of it that is."""
    error = 0.004
    mean = math.log(limit) + BETTER[metric] * errors * error
    found = of_units({metric: logs_of(mean, error)})
    outcome = judge_against_reference(found, ratios(tmp_path, **{key: limit}))
    assert outcome.verdict is verdict
    assert outcome.judgements[0].verdict is verdict


@pytest.mark.parametrize(
    ("errors", "verdict"), [(0.95, Verdict.PASS), (1.05, Verdict.IMPROVED), (3.0, Verdict.IMPROVED)]
)
@pytest.mark.parametrize(("metric", "key", "limit"), [(RATE, "rate", 0.95), (CPU, "cpu", 1 / 0.95)])
def test_a_gain_is_one_where_it_is_as_far_off_as_a_loss_would_have_to_be(
    errors: float, verdict: Verdict, metric: str, key: str, limit: float, tmp_path: Path
) -> None:
    error = 0.004
    mean = BETTER[metric] * (abs(math.log(limit)) + errors * error)
    found = of_units({metric: logs_of(mean, error)})
    assert judge_against_reference(found, ratios(tmp_path, **{key: limit})).judgements[0].verdict is verdict


@pytest.mark.parametrize(("final", "verdict"), [(True, Verdict.PASS), (False, Verdict.INCONCLUSIVE)])
def test_before_the_end_a_ratio_is_kept_by_its_whole_interval(final: bool, verdict: Verdict, tmp_path: Path) -> None:
    found = of_units({RATE: logs_of(math.log(0.95) + 1.5 * 0.004, 0.004)}, planned_units=20)
    assert judge_against_reference(found, ratios(tmp_path, rate=0.95), final=final).judgements[0].verdict is verdict


def test_a_loss_that_is_not_known_to_be_one_breaks_no_limit(tmp_path: Path) -> None:
    """With a limit of 1 each loss is beyond it; chance makes one of half of its errors."""
    found = of_units({RATE: logs_of(-0.008, 0.004)})
    assert judge_against_reference(found, ratios(tmp_path, rate=1.0)).verdict is Verdict.INCONCLUSIVE
    found = of_units({RATE: logs_of(-0.04, 0.004)})
    assert judge_against_reference(found, ratios(tmp_path, rate=1.0)).verdict is Verdict.REGRESSED


def reach_and_level() -> tuple[float, float]:
    """Return by how many errors the interval reaches to either side, and how many a decision takes."""
    _, found = judge_units(logs_of(0.0, 1.0), len(SHAPE), final=True)
    return found.interval[1], found.level


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("share", "same"), [(1.02, False), (0.98, True)])
@pytest.mark.parametrize("margin", [0.05, 0.2])
def test_an_interval_that_leaves_the_margin_by_a_hair_is_not_the_same(
    sign: int, share: float, same: bool, margin: float
) -> None:
    reach, _ = reach_and_level()
    error = 0.6 * math.log1p(margin) / reach
    mean = sign * (share * math.log1p(margin) - reach * error)
    found = judge_comparison(of_units({RATE: logs_of(mean, error)}, decides=Deciding(margin=margin)))
    assert found.effect is (Effect.SAME if same else Effect.INCONCLUSIVE)


@pytest.mark.parametrize("metric", [RATE, CPU, P99])
@pytest.mark.parametrize("better", [True, False])
@pytest.mark.parametrize("share", [0.98, 1.02])
def test_a_mean_that_is_a_hair_farther_off_than_chance_decides(metric: str, better: bool, share: float) -> None:
    _, level = reach_and_level()
    error = 0.03
    mean = BETTER[metric] * (1 if better else -1) * share * level * error
    found = judge_comparison(of_units({metric: logs_of(mean, error)}, decides=Deciding(metrics=(metric,))))
    decided = Effect.FASTER if better else Effect.SLOWER
    assert found.effect is (decided if share > 1 else Effect.INCONCLUSIVE)


def with_rounds(found: Comparison, side: str, **fields: Sequence[Any]) -> Comparison:
    """Return the comparison whose rounds of one side have these fields; `compiling`: the share of it."""
    measured: Measurement = getattr(found, side)
    rounds = []
    for at, r in enumerate(measured.rounds):
        here = {name: values[at] for name, values in fields.items()}
        if "compiling" in here:
            here["metrics"] = {**r.metrics, "broker_compile_share.max": here.pop("compiling")}
        rounds.append(replace(r, **here))
    sides: dict[str, Any] = {side: replace(measured, rounds=tuple(rounds))}
    return replace(found, **sides)


@pytest.mark.parametrize("side", ["baseline", "candidate"])
@pytest.mark.parametrize(("cold", "share", "tells"), [(5, 0.3, True), (6, 0.3, False), (10, 0.1, True)])
def test_half_of_the_rounds_on_compiling_brokers_are_not_most(side: str, cold: int, share: float, tells: bool) -> None:
    found = with_rounds(comparison(1.0), side, compiling=[share] * cold + [0.0] * (10 - cold))
    outcome = judge_comparison(found)
    assert (outcome.effect is Effect.SAME) is tells
    assert ("still warming up" in str(outcome.reasons)) is not tells


@pytest.mark.parametrize("side", ["baseline", "candidate"])
@pytest.mark.parametrize(("cold", "slower"), [(4, False), (3, True)])
def test_a_look_at_as_many_units_as_were_cold_tells_nothing(side: str, cold: int, slower: bool) -> None:
    """Of seven units four are most of them, of which three are not; the plan is looked at after seven.

    The first seven are a fifth slower and the others not at all: who ended there would have said so.
    """
    logs = [-0.22 + 0.001 * (-1) ** at for at in range(7)] + [0.03 + 0.001 * (-1) ** at for at in range(33)]
    found = of_units({RATE: logs})
    found = with_rounds(found, side, compiling=[0.3 if at < cold else 0.0 for at in range(40)])
    assert (judge_comparison(found).effect is Effect.SLOWER) is slower


PACED = Load(kind="paced", rate=1000.0)
SHORT = "not sustained: took 900 of 1,000"


def short(candidate: Sequence[bool], declared: Sequence[bool], **changes: Any) -> Comparison:
    """Return the comparison of a paced load that either side's brokers did not take in these rounds."""
    found = of_units({P99: [0.01 * (-1) ** at for at in range(len(candidate))]}, **changes)
    for side, rounds in (("candidate", candidate), ("baseline", declared)):
        found = with_rounds(found, side, not_sustained=[SHORT if one else "" for one in rounds])
        measured = getattr(found, side)
        found = replace(found, **{side: replace(measured, scenario=replace(measured.scenario, load=PACED))})
    return found


def first(count: int, of: int = 10) -> list[bool]:
    return [at < count for at in range(of)]


@pytest.mark.parametrize(
    ("candidate", "declared", "effect"),
    [
        (0, 0, Effect.SAME),
        (5, 5, Effect.SAME),
        (5, 4, Effect.SAME),
        (6, 5, Effect.INCONCLUSIVE),
        (6, 6, Effect.INCONCLUSIVE),
        (9, 1, Effect.INCONCLUSIVE),
        (10, 2, Effect.SLOWER),
        (9, 0, Effect.SLOWER),
        (5, 0, Effect.INCONCLUSIVE),
        (4, 0, Effect.SAME),
    ],
)
def test_loads_that_were_not_taken_in_half_of_the_rounds_and_what_the_last_look_may_spend(
    candidate: int, declared: int, effect: Effect
) -> None:
    """The looks before have spent 0.64 of the chance of 0.001. 9 and 1 of 10 come by chance in 0.00055, 10 and 2 in
    0.00036; 5 and 0 in 0.016, of the 0.025 at which they are no longer the same, 4 and 0 in 0.043.
    """
    outcome = judge_comparison(short(first(candidate), first(declared)))
    assert outcome.effect is effect
    assert ("as declared: " in str(outcome.reasons)) is (declared > 5)


@pytest.mark.parametrize(
    ("candidate", "declared", "verdict"),
    [
        (5, 5, Verdict.PASS),
        (6, 5, Verdict.INCONCLUSIVE),
        (9, 1, Verdict.INCONCLUSIVE),
        (10, 2, Verdict.REGRESSED),
        (10, 6, Verdict.INCONCLUSIVE),
    ],
)
def test_so_it_is_beside_a_reference(candidate: int, declared: int, verdict: Verdict, tmp_path: Path) -> None:
    found = short(first(candidate), first(declared))
    assert judge_against_reference(found, ratios(tmp_path, p99=1.5)).verdict is verdict


@pytest.mark.parametrize(("of_four", "effect"), [(2, Effect.INCONCLUSIVE), (3, Effect.SLOWER)])
def test_a_pair_of_clusters_was_short_where_most_of_its_rounds_were(of_four: int, effect: Effect) -> None:
    """Eight pairs, each of which counts once: with half of its rounds it counts as one that took the load."""
    each = first(of_four, 4) * 8
    orders = ("ABBA BAAB ABBA BAAB",) * 8
    found = short(each, first(0, 32), method="pairs", rounds_per_unit=4, planned_units=8, orders=orders)
    assert judge_comparison(found).effect is effect


def stating(
    found: Comparison, before: str | None, after: str | None, name: str, load: Load | None = None
) -> Comparison:
    """Return the comparison whose topics have this setting on either side."""
    sides = {}
    for side, value in (("baseline", before), ("candidate", after)):
        measured = getattr(found, side)
        row = measured.scenario
        topic = replace(row.topic, config=settings({name: value}) if value is not None else ())
        sides[side] = replace(measured, scenario=replace(row, topic=topic, load=load or row.load))
    return replace(found, **sides)


@pytest.mark.parametrize(
    ("name", "before", "after", "reached"),
    [
        ("segment.ms", None, "12000", True),
        ("segment.ms", None, "12001", False),
        ("segment.ms", "12001", "12002", False),
        ("segment.ms", "12000", "90000", True),
        ("segment.ms", "90000", "12000", True),
        ("retention.ms", "-1", None, False),
        ("segment.ms", "-1", "12000", True),
        ("segment.ms", "0", None, True),
        ("flush.messages", None, "334", True),
        ("flush.messages", None, "335", False),
        ("segment.bytes", None, str(334 * 1024), True),
        ("segment.bytes", None, str(334 * 1024 + 1), False),
        ("retention.bytes", "-1", str(10**9), False),
        ("segment.bytes", "5000000000", "5000000000", True),
        ("compression.type", None, "lz4", True),
    ],
)
def test_a_setting_is_reached_to_the_last_record_byte_and_millisecond(
    name: str, before: str | None, after: str | None, reached: bool
) -> None:
    """Turns of 2 s after a warm-up of 4 s, of both sides in one topic; 1,000 records of 1 KiB in 3 partitions."""
    found = comparison(1.0)
    for side in ("baseline", "candidate"):
        found = with_rounds(found, side, warmup_s=[4.0] * 10)
    outcome = judge_comparison(stating(found, before, after, name))
    assert outcome.effect is (Effect.SAME if reached else Effect.INCONCLUSIVE)
    assert ("was never reached" in str(outcome.reasons)) is not reached


FLUSHER, RETENTION = "log.flush.scheduler.interval.ms", "log.retention.check.interval.ms"


@pytest.mark.parametrize(
    ("name", "value", "looks", "often"),
    [
        ("flush.ms", "1000", {}, "brokers never look whether it has to act (log.flush.scheduler.interval.ms, "),
        ("log.flush.interval.ms", "1000", {}, "--set broker.log.flush.scheduler.interval.ms=1000 has them"),
        ("flush.ms", "1000", {FLUSHER: "12000"}, ""),
        ("flush.ms", "1000", {FLUSHER: "12001"}, "look each 12 s"),
        ("retention.bytes", "1000", {}, "look each 300 s whether it has to act (log.retention.check.interval.ms, "),
        ("retention.bytes", "1000", {RETENTION: "1000"}, ""),
        ("log.retention.ms", "1000", {}, "look each 300 s"),
        ("retention.ms", "0", {RETENTION: "12000"}, ""),
        ("flush.messages", "300", {}, ""),
        ("segment.bytes", "1000", {}, ""),
    ],
)
def test_a_setting_is_not_reached_before_brokers_have_looked(
    name: str, value: str, looks: dict[str, str], often: str
) -> None:
    """A flush each second was SAME on brokers that never look whether one is due. Topics are written to for 12 s."""
    found = comparison(1.0)
    for side in ("baseline", "candidate"):
        found = with_rounds(found, side, warmup_s=[4.0] * 10)
    found = stating(found, None, value, name)
    for side in ("baseline", "candidate"):
        m = getattr(found, side)
        row = replace(m.scenario, cluster=replace(m.scenario.cluster, config=settings(looks)))
        found = replace(found, **{side: replace(m, scenario=row)})
    outcome = judge_comparison(found)
    assert outcome.effect is (Effect.INCONCLUSIVE if often else Effect.SAME)
    assert often in "".join(outcome.reasons)
    assert all(reason.startswith(f"{name} of {value} was never reached: ") for reason in outcome.reasons)


@pytest.mark.parametrize(("size", "order"), [(1, "AB"), (2, "ABBA")], ids=["two rounds", "four, as recorded before"])
@pytest.mark.parametrize(("ms", "reached"), [("6000", True), ("6001", False)])
def test_whole_rounds_have_a_topic_of_one_side(ms: str, reached: bool, size: int, order: str) -> None:
    found = comparison(1.0, method="rounds", rounds_per_unit=size, planned_units=10 // size, orders=(order,) * 10)
    for side in ("baseline", "candidate"):
        found = with_rounds(found, side, warmup_s=[4.0] * 10)
    assert (judge_comparison(stating(found, None, ms, "segment.ms")).effect is Effect.SAME) is reached


def test_the_fullest_partition_and_the_longest_round_count() -> None:
    found = comparison(1.0)
    fuller = replace(found.candidate.rounds[0].accounting, partitions=((900, 900), (50, 50), (50, 50)))
    accounts = [fuller, *(r.accounting for r in found.candidate.rounds[1:])]
    fullest = with_rounds(found, "candidate", accounting=accounts)
    for records, reached in (("900", True), ("901", False)):
        outcome = judge_comparison(stating(fullest, None, records, "flush.messages"))
        assert (outcome.effect is Effect.SAME) is reached
    longer = with_rounds(found, "candidate", warmup_s=[7.0, *[1.0] * 9])
    for ms, reached in (("12000", True), ("12001", False)):
        assert (judge_comparison(stating(longer, None, ms, "segment.ms")).effect is Effect.SAME) is reached


@pytest.mark.parametrize(
    ("held", "records", "reached"), [(60_000, "20000", True), (60_000, "20001", False), (60_001, "20001", True)]
)
def test_of_a_backlog_its_records_count(held: int, records: str, reached: bool) -> None:
    backlog = Load(kind="backlog", records=held)
    outcome = judge_comparison(stating(comparison(1.0), None, records, "flush.messages", backlog))
    assert ("was never reached" in str(outcome.reasons)) is not reached
    never = judge_comparison(stating(comparison(1.0), None, "1", "segment.ms", backlog))
    assert "was never reached" in str(never.reasons), "it is not known when it was written"


def test_a_unit_is_the_mean_of_its_rounds_and_one_that_is_not_whole_counts_nothing() -> None:
    found = of_units({RATE: [0.02, -0.02, 0.06, 0.02, -0.02, 0.02, 0.0, 0.0, -0.9, -0.9]})
    found = replace(found, method="rounds", rounds_per_unit=2, planned_units=5, orders=("ABBA",) * 4)
    cut = replace(found.candidate, rounds=found.candidate.rounds[:9])
    found = with_rounds(replace(found, candidate=cut), "baseline", metrics=[{RATE: 1000.0}] * 9 + [{}])
    outcome = judge_comparison(found)
    assert outcome.units == 4
    assert outcome.pairs == 8, "each of ABBA has two"
    assert outcome.unit_effects == pytest.approx([0.0, math.expm1(0.04), 0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize(("recorded", "needed"), [((), 4), ((RATE,), 4), ((RATE, P99), 3)])
def test_three_units_are_enough_where_pairs_of_each_deciding_metric_are_recorded(
    recorded: tuple[str, ...], needed: int
) -> None:
    effects = (0.05, -0.04, 0.06, -0.05, 0.03, -0.06, 0.05, -0.05)
    found = of_units(
        {RATE: [0.0, 0.01, -0.01], P99: [0.0, 0.01, -0.01]},
        method="pairs",
        decides=Deciding(metrics=(RATE, P99)),
        recorded=tuple(RecordedPairs(metric=name, rounds_per_unit=1, effects=effects) for name in recorded),
    )
    outcome = judge_comparison(found)
    told = f"3 unit(s) were measured; an interval and a decision need {needed}"
    assert (told in outcome.reasons) is (needed == 4)


@pytest.mark.parametrize(("before", "after", "effect"), [(1.0, 1.04, Effect.INCONCLUSIVE), (1.04, 1.0, Effect.SAME)])
def test_a_longer_path_may_hide_that_a_record_costs_the_client_more(
    before: float, after: float, effect: Effect
) -> None:
    """Who waits longer for its answers sends larger batches, and a record costs it less: that may hide 4 %."""
    found = on_two(1.0, before, after, decides=Deciding(metrics=(CLIENT_CPU,)))
    for side, noise in (("baseline", (1.0,) * 10), ("candidate", WIDE)):
        metrics = [{**r.metrics, CLIENT_CPU: 5.0 * x} for r, x in zip(found.baseline.rounds, noise, strict=True)]
        found = with_rounds(found, side, metrics=metrics)
    outcome = judge_comparison(found)
    assert outcome.effect is effect
    assert all(f"may hide a loss of 4.0 % of {CLIENT_CPU}" in reason for reason in outcome.reasons)


@pytest.mark.parametrize(
    ("partitions", "effect"), [(1, Effect.INCONCLUSIVE), (2, Effect.SLOWER), (3, Effect.SLOWER), (9, Effect.SLOWER)]
)
def test_requests_in_flight_are_of_the_brokers_that_lead(partitions: int, effect: Effect) -> None:
    """1,000 records/s go to one broker, or two, or three: five of them in flight carry one each up to 5, 10, 15 ms.

    From 10 to 4 ms of path that is larger batches before for one partition alone; 40 % more CPU is within that.
    """
    found = on_two(1.0, 10.0, 4.0, cpu_us=70.0, decides=Deciding(metrics=(CPU,)))
    for side in ("baseline", "candidate"):
        measured = getattr(found, side)
        cluster = replace(measured.scenario.cluster, brokers=3)
        row = replace(measured.scenario, topic=replace(measured.scenario.topic, partitions=partitions), cluster=cluster)
        found = replace(found, **{side: replace(measured, scenario=row)})
    assert judge_comparison(found).effect is effect


def test_what_a_path_may_make_is_said_with_both_round_trips() -> None:
    near = judge_comparison(on_two(1.0, 1.04, 1.0, noise=WIDE))
    assert "takes 1.04 ms to the cluster as declared and 1.00 ms to the other, which may hide" in near.reasons[0]
    far = judge_comparison(on_two(0.905, 1.0, 1.09, noise=WIDE))
    assert "takes 1.00 ms to the cluster as declared and 1.09 ms to the other, which may be" in far.reasons[0]


@pytest.mark.parametrize(
    ("own", "recorded", "share"), [(2, 8, 0.5), (10, 10, 0.5), (30, 10, 0.625), (90, 10, 0.85), (10, 0, 1.0)]
)
def test_what_counts_of_skewness_is_by_the_pairs_that_showed_it(own: int, recorded: int, share: float) -> None:
    effects = (0.1, -0.1) * (recorded // 2)
    pairs = RecordedPairs(metric=RATE, rounds_per_unit=1, effects=effects) if recorded else None
    found = scatter([0.05 * (-1) ** at for at in range(own + 1)], pairs)
    assert found.skewness_share == pytest.approx(share)
    assert found.freedom == own + recorded


def test_a_loss_of_one_unit_has_an_interval_around_it(tmp_path: Path) -> None:
    """The 95 % of a unit that scatters by 0.5, widened by the root of 3."""
    outcome = judge_against_reference(of_units({RATE: [-math.log(20.0)]}), ratios(tmp_path, rate=0.95))
    (judgement,) = outcome.judgements
    assert outcome.verdict is Verdict.REGRESSED
    reach = math.exp(1.96 * 0.5 * math.sqrt(3))
    assert judgement.measured == pytest.approx(50.0)
    assert judgement.interval == pytest.approx((50.0 / reach, 50.0 * reach), rel=1e-3)
    assert judgement.limit == pytest.approx(950.0)
    assert judgement.baseline == pytest.approx(1000.0)
    assert judgement.tolerance == pytest.approx(0.05)
    assert judgement.spread is None


def test_a_topic_that_was_given_nothing_reaches_nothing() -> None:
    found = comparison(1.0)
    for side in ("baseline", "candidate"):
        found = with_rounds(found, side, accounting=[accounting(0)] * 10)
    outcome = judge_comparison(stating(found, None, "1", "flush.messages"))
    assert "no partition of a round was given more than 0 records" in outcome.reasons[0]


def test_rounds_that_lack_the_metric_take_nothing_from_a_loss(tmp_path: Path) -> None:
    found = of_units({RATE: [-math.log(20.0)] * 3})
    metrics = [{**r.metrics} for r in found.candidate.rounds]
    del metrics[1][RATE]
    outcome = judge_against_reference(with_rounds(found, "candidate", metrics=metrics), ratios(tmp_path, rate=0.95))
    assert outcome.verdict is Verdict.REGRESSED
    (judgement,) = outcome.judgements
    assert judgement.measured == pytest.approx(50.0)
    assert judgement.reason.startswith("2 of 3 unit(s); red in spite of this: 3 unit(s) were measured")


def test_a_loss_that_is_explained_is_not_called_red(tmp_path: Path) -> None:
    found = of_units({RATE: [-0.1] * 2})
    metrics = [{**r.metrics, "broker_compile_share.max": 0.5} for r in found.candidate.rounds]
    outcome = judge_against_reference(with_rounds(found, "candidate", metrics=metrics), ratios(tmp_path, rate=0.95))
    (judgement,) = outcome.judgements
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert judgement.reason.startswith("2 of 2 unit(s); candidate: brokers still warming up: ")


@pytest.mark.parametrize(("candidate", "effect"), [(8, Effect.INCONCLUSIVE), (10, Effect.SLOWER)])
def test_a_look_in_the_middle_of_a_plan_spends_its_own_part_of_the_error(candidate: int, effect: Effect) -> None:
    """Ten of forty units: 0.03 of 0.001. 8 of 10 beside none come by chance in 0.00036, 10 in 0.000005."""
    outcome = judge_comparison(short(first(candidate), first(0), planned_units=40))
    assert outcome.effect is effect


@pytest.mark.parametrize("metric", [RATE, CPU])
def test_a_ratio_is_told_with_the_interval_of_its_mean(metric: str, tmp_path: Path) -> None:
    reach, _ = reach_and_level()
    found = of_units({metric: logs_of(0.01, 0.004)})
    key = "rate" if metric == RATE else "cpu"
    (judgement,) = judge_against_reference(found, ratios(tmp_path, **{key: 0.95 if metric == RATE else 1.1})).judgements
    assert judgement.interval is not None
    usual = USUAL[metric]
    assert judgement.measured == pytest.approx(usual * math.exp(0.01))
    assert judgement.interval == pytest.approx([usual * math.exp(0.01 + sign * reach * 0.004) for sign in (-1, 1)])


@pytest.mark.parametrize(
    ("name", "value", "seconds"),
    [
        ("log.roll.hours", "1", 3600),
        ("log.retention.hours", "2", 7200),
        ("log.retention.minutes", "6", 360),
        ("log.retention.ms", "360000", 360),
    ],
)
def test_hours_and_minutes_are_those_of_a_topic_that_is_written_to_for_as_long(
    name: str, value: str, seconds: int
) -> None:
    for off_s, reached in ((0.0, True), (0.001, False)):
        found = comparison(1.0)
        for side in ("baseline", "candidate"):
            found = with_rounds(found, side, warmup_s=[seconds / 2 - 2.0 - off_s] * 10)
        outcome = judge_comparison(stating(found, None, value, name))
        assert ("was never reached" in str(outcome.reasons)) is not reached


def test_a_unit_of_two_rounds_was_cold_where_most_rounds_up_to_its_end_were() -> None:
    """Four of the first eight rounds are half of them, though five of nine are most: the look at four units tells."""
    logs = [-0.22 + 0.001 * (-1) ** (at // 2) for at in range(8)] + [0.03 + 0.001 * (-1) ** at for at in range(72)]
    found = of_units({RATE: logs}, method="rounds", rounds_per_unit=2, planned_units=40, orders=("ABBA",) * 40)
    found = with_rounds(found, "candidate", compiling=[0.3 if 4 <= at < 9 else 0.0 for at in range(80)])
    assert judge_comparison(found).effect is Effect.SLOWER
