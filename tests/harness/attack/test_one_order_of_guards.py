"""Guards of changes and references: where two orders differed, the better one holds for both."""

from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.judge.bounds_files import Ratios, load_ratios
from perfgate.judge.claims.ratio import judge_against_reference
from perfgate.judge.claims.same import judge_comparison
from perfgate.model import Comparison, Deciding, Effect, Load, Round, Verdict
from tests.harness.build import flawed
from tests.harness.build.comparisons import comparison

PACED = Load(kind="paced", rate=1000.0)
P99 = "latency_ms.p99"
SHORT = "not sustained: the brokers took 900 of 1,000 records/s"


@pytest.fixture
def ratios(tmp_path: Path) -> Ratios:
    (tmp_path / "ratios.toml").write_text("[default]\nrecords_per_s = { at_least = 0.8 }\n")
    return load_ratios(tmp_path)


def under(load: Load, found: Comparison) -> Comparison:
    """Return the comparison of a scenario with this load."""
    row = replace(found.scenario, load=load)
    return replace(
        found,
        baseline=replace(found.baseline, scenario=row),
        candidate=replace(found.candidate, scenario=row),
    )


def without(name: str, one: Round) -> Round:
    """Return the round without a metric."""
    return replace(one, metrics={key: value for key, value in one.metrics.items() if key != name})


def test_a_rate_that_is_not_taken_is_slower_whatever_the_latency_lacks(ratios: Ratios) -> None:
    """The change was INVALID, as one of its rounds had no p99; beside a reference it was REGRESSED."""
    found = under(PACED, comparison(1.0))
    rounds = [replace(r, not_sustained=SHORT) for r in found.candidate.rounds]
    rounds[0] = without(P99, rounds[0])
    lacking = replace(found, candidate=replace(found.candidate, rounds=tuple(rounds)))
    assert judge_comparison(lacking).effect is Effect.SLOWER
    assert judge_against_reference(lacking, ratios).verdict is Verdict.REGRESSED


def test_of_a_load_that_neither_side_takes_only_the_rate_counts() -> None:
    """The change was INVALID for a p99 that is that of a queue which grows."""
    found = under(PACED, comparison(1.0))
    short = [tuple(replace(r, not_sustained=SHORT) for r in m.rounds) for m in (found.baseline, found.candidate)]
    lacking = (without(P99, short[1][0]), *short[1][1:])
    found = replace(
        found,
        baseline=replace(found.baseline, rounds=short[0]),
        candidate=replace(found.candidate, rounds=lacking),
    )
    assert judge_comparison(found).effect is Effect.INCONCLUSIVE
    half = replace(
        found,
        candidate=replace(
            found.candidate,
            rounds=tuple(replace(r, metrics={**r.metrics, "records_per_s": 50.0}) for r in found.candidate.rounds),
        ),
    )
    assert judge_comparison(half).effect is Effect.SLOWER, "which took a twentieth of what the other side took"


def test_a_flawed_metric_hides_no_loss_of_another_that_decides() -> None:
    """With --on records_per_s,latency_ms.p99 one late round leaves the rate what it is."""
    found = comparison(0.7, decides=Deciding(metrics=("records_per_s", P99)))
    late = flawed(found.candidate.rounds[0], invalid_metrics={"latency_ms": "sent late"})
    found = replace(found, candidate=replace(found.candidate, rounds=(late, *found.candidate.rounds[1:])))
    outcome = judge_comparison(found)
    assert outcome.effect is Effect.SLOWER
    assert outcome.primary is not None
    assert outcome.primary.metric.name == "records_per_s"


def test_the_path_is_asked_of_every_metric_that_decides() -> None:
    """A latency that the path may have kept is not the same beside a CPU that is."""
    decides = Deciding(metrics=("broker_cpu_us_per_record", P99))
    near = comparison(1.0, decides=decides, two_clusters=True)
    paths = replace(
        near,
        baseline=replace(near.baseline, rtt_ms={"same-zone": 4.0}),
        candidate=replace(near.candidate, rtt_ms={"same-zone": 0.2}),
    )
    assert judge_comparison(paths).effect is Effect.INCONCLUSIVE


@pytest.mark.parametrize("below", [0, 8])
def test_a_candidate_below_its_cap_is_not_green_beside_a_reference(below: int, ratios: Ratios) -> None:
    """The median of the rounds is at the cap; of the 20 rounds 8 are not, which was PASS."""
    found = comparison(1.0, noise=(1.0,) * 20, cap=1000.0)
    rounds = tuple(
        replace(r, metrics={**r.metrics, "records_per_s": 900.0 if i < below else 1000.0})
        for i, r in enumerate(found.candidate.rounds)
    )
    found = replace(found, candidate=replace(found.candidate, rounds=rounds))
    assert judge_against_reference(found, ratios).verdict.green is (below == 0)
    assert judge_comparison(found).effect.green is (below == 0)
