"""Metrics that a run is asked to decide a comparison by, and the margin within which they are the same."""

from dataclasses import replace

import numpy as np
import pytest

from perfgate.judge.claims.same import judge_comparison, with_notable
from perfgate.judge.sequential import Rule, critical, looks_until
from perfgate.judge.wording import alone_lines, comparison_message, recommendation
from perfgate.measure.parts import Compared
from perfgate.model import AS_USUAL, METRICS, Comparison, Consumers, Deciding, Effect, Load
from perfgate.model.compared import MAY_DECIDE
from perfgate.report.results import comparison_entry
from tests.harness.build import flawed, one_round, scenario
from tests.harness.build.comparisons import comparison
from tests.harness.build.units import judge_units

RATE, CPU, P99 = "records_per_s", "broker_cpu_us_per_record", "latency_ms.p99"


def by(*metrics: str, margin: float = 0.05, factor: float = 1.0, cpu_us: float = 50.0) -> Comparison:
    return comparison(factor, cpu_us=cpu_us, decides=Deciding(metrics=metrics, margin=margin))


@pytest.mark.parametrize(
    ("found", "effect", "leads"),
    [
        (by(RATE), Effect.SAME, RATE),
        (by(CPU), Effect.SAME, CPU),
        (by(CPU, cpu_us=54.0), Effect.SLOWER, CPU),
        (by(RATE, cpu_us=54.0), Effect.SAME, RATE),
        (by(RATE, CPU, cpu_us=54.0), Effect.SLOWER, CPU),
        (by(RATE, CPU, factor=0.8, cpu_us=40.0), Effect.SLOWER, RATE),
        (by(RATE, CPU, cpu_us=40.0), Effect.FASTER, CPU),
        (by(RATE, CPU, P99), Effect.SAME, RATE),
        # what is asked about is held to its own margin, not to the usual guard of a tenth
        (by(CPU, margin=0.3, cpu_us=60.0), Effect.SAME, CPU),
        (by(RATE, margin=0.3, cpu_us=60.0), Effect.SLOWER, RATE),
        (by(RATE, margin=0.15, factor=0.9), Effect.SAME, RATE),
        (by(RATE, margin=0.001), Effect.INCONCLUSIVE, RATE),
    ],
)
def test_what_is_asked_about_decides(found: Comparison, effect: Effect, leads: str) -> None:
    outcome = judge_comparison(found)
    assert outcome.primary is not None
    assert (outcome.effect, outcome.primary.metric.name) == (effect, leads)
    asked = [one.metric.name for one in (outcome.primary, *outcome.others) if one.verdict]
    assert sorted(asked) == sorted(found.decides.metrics)
    assert len({one.metric for one in outcome.others}) == len(outcome.others), "none stands there twice"


def test_one_that_is_open_leaves_the_scenario_open_unless_another_is_worse() -> None:
    noisy = (1.3, 0.7, 1.2, 0.8, 1.25, 0.75, 1.1, 0.9)
    both = Deciding(metrics=(RATE, CPU))
    for cpu_us, effect in ((50.0, Effect.INCONCLUSIVE), (25.0, Effect.INCONCLUSIVE), (100.0, Effect.SLOWER)):
        outcome = judge_comparison(comparison(0.96, noise=noisy, cpu_us=cpu_us, decides=both))
        assert outcome.effect is effect
        assert (outcome.more_minutes is not None) is (effect is Effect.INCONCLUSIVE)


def test_what_decides_is_said_in_words_and_in_run_json() -> None:
    outcome = judge_comparison(by(RATE, CPU, margin=0.03, cpu_us=54.0))
    message = comparison_message(outcome, "x")
    assert (
        "  decides    records_per_s, broker_cpu_us_per_record, the same within 3 %; they share the chance of a wrong"
        in message
    )
    assert [line.partition(":")[0] for line in alone_lines(outcome)] == ["SLOWER by itself", "SAME by itself"]
    found = by(RATE, CPU, margin=0.03, cpu_us=54.0)
    bare = replace(found, baseline=replace(found.baseline, rounds=()), candidate=replace(found.candidate, rounds=()))
    entry = comparison_entry(bare, outcome)
    assert entry["decides"] == {"metrics": [RATE, CPU], "margin": 0.03}
    assert [one["verdict"] for one in entry["others"] if one["metric"] == RATE] == ["SAME"]
    assert "decides" not in comparison_message(judge_comparison(comparison(1.0)), "x")
    same = judge_comparison(by(CPU, margin=0.075))
    assert "changes no scenario's broker_cpu_us_per_record by more than 7.5 %" in recommendation([same], "x")
    assert with_notable([same])[0].decides == same.decides


def test_a_metric_that_was_not_measured_decides_nothing() -> None:
    outcome = judge_comparison(by(RATE, "received_records_per_s"))
    assert (outcome.effect, outcome.reasons) == (
        Effect.INVALID,
        ("received_records_per_s was not measured in every round",),
    )


@pytest.mark.parametrize("metrics", [2, 5, 20])
def test_metrics_share_the_chance_of_an_error(metrics: int) -> None:
    looks = looks_until(40, 40, last=True)
    assert critical(looks, 0.001 / metrics, 39) > critical(looks, 0.001, 39)
    rng, rule = np.random.default_rng(7), Rule(share=1 / metrics)
    runs = [
        [judge_units(rng.normal(0, 0.1, 20).tolist(), 20, final=True, rule=rule) for _ in range(metrics)]
        for _ in range(600 // metrics)
    ]
    off = sum(any(not found.interval[0] < 0 < found.interval[1] for _, found in run) for run in runs)
    assert off <= 0.05 * len(runs) + 3 * (0.05 * len(runs)) ** 0.5, "95 % of the runs: all intervals hold the truth"


@pytest.mark.parametrize(
    ("metric", "load", "consumers", "words"),
    [
        (RATE, Load(kind="paced", rate=10.0), None, "a paced load sends as much whatever the brokers do"),
        (CPU, Load(kind="paced", rate=10.0), None, None),
        (RATE, Load(kind="capped", rate=10.0), None, None),
        ("end_to_end_latency_ms.p99", Load(kind="capped", rate=10.0), None, "this scenario has no consumers"),
        ("end_to_end_latency_ms.p99", Load(kind="paced", rate=10.0), Consumers(membership="group"), None),
        (P99, Load(kind="backlog", records=10), Consumers(membership="group"), "this scenario only reads"),
    ],
)
def test_what_tells_nothing_of_a_scenario_is_refused(
    metric: str, load: Load, consumers: Consumers | None, words: str | None
) -> None:
    told = Deciding(metrics=(CPU, metric)).cannot(replace(scenario(), load=load, consumers=consumers))
    assert (words in told) if words and told else told is words


def test_a_paced_load_goes_on_when_its_latency_is_spoilt_and_another_metric_decides() -> None:
    row = replace(scenario(), load=Load(kind="paced", rate=10.0))
    late = flawed(one_round(1, 1000.0), invalid_metrics={"latency_ms": "sent late"})
    for decides, over in ((AS_USUAL, True), (Deciding(metrics=(CPU,)), False), (Deciding(metrics=(P99, CPU)), True)):
        one = Compared({"A": row, "B": row}, "turns", 1, decides=decides)
        one.rounds["A"].append(late)
        assert one.unsound is over


def test_what_may_decide_is_a_metric_and_none_of_a_fault() -> None:
    assert {RATE, CPU, P99} <= set(MAY_DECIDE) < set(METRICS)
    assert not [name for name in MAY_DECIDE if "outage" in name or "during" in name]
