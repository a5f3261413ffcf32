"""Several metrics that decide: what one told early is looked at anew while the others keep the scenario going."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.claims.ratio import ReferenceStopRule, judge_against_reference
from perfgate.judge.claims.same import SequentialStopRule, judge_comparison
from perfgate.model import Comparison, Deciding, Effect, Measurement, Verdict
from tests.harness.build.comparisons import comparison
from tests.harness.build.units import judge_units
from tests.harness.run_gate import ROOT

RATE, CPU, P99 = "records_per_s", "broker_cpu_us_per_record", "latency_ms.p99"
PLANNED = 40


def measured(**ratios: np.ndarray) -> Comparison:
    """Return a comparison of PLANNED units whose candidate has these ratios, unit by unit, to what is declared."""
    found = comparison(1.0, noise=(1.0,) * PLANNED, decides=Deciding(metrics=(RATE, P99)))
    usual = {RATE: 1000.0, CPU: 50.0, P99: 4.0}

    def side(m: Measurement, power: int) -> Measurement:
        rounds = []
        for r in m.rounds:
            values = {name: usual[name] * float(ratio[r.index - 1]) ** power for name, ratio in ratios.items()}
            rounds.append(replace(r, metrics={**r.metrics, **values}))
        return replace(m, rounds=tuple(rounds))

    return replace(found, baseline=side(found.baseline, 0), candidate=side(found.candidate, 1))


def until(found: Comparison, decided: Callable[[Comparison], bool]) -> Comparison:
    """Return the comparison as it is when the stop rule ends it."""
    for units in range(4, PLANNED + 1):
        cut = replace(
            found,
            orders=found.orders[:units],
            baseline=replace(found.baseline, rounds=found.baseline.rounds[:units]),
            candidate=replace(found.candidate, rounds=found.candidate.rounds[:units]),
        )
        if decided(cut):
            return cut
    return cut


def scattered(rng: np.random.Generator, by: float, **means: float) -> dict[str, np.ndarray]:
    return {name: mean * np.exp(rng.normal(0, by, PLANNED)) for name, mean in means.items()}


@pytest.mark.parametrize("alike", [4, 7, 10])
def test_a_loss_that_comes_while_another_ratio_is_open_is_not_green(alike: int) -> None:
    """The rate was PASS at 0.999 after four bursts, and 15 % lower in all that came while p99 was still open."""
    ratios, rng = load_ratios(ROOT / "perfgate" / "catalogue"), np.random.default_rng(5)
    rate = np.r_[np.ones(alike), np.full(PLANNED - alike, 0.85)] * (1 + rng.normal(0, 0.005, PLANNED))
    whole = measured(**{RATE: rate}, **scattered(rng, 0.25, **{P99: 1.05}))
    found = until(whole, lambda cut: ReferenceStopRule(ratios).decided(cut.turned()))
    outcome = judge_against_reference(found, ratios)
    assert len(found.orders) > alike, "what it is about"
    assert outcome.verdict in (Verdict.REGRESSED, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize("seed", range(3))
def test_so_it_is_of_metrics_that_a_comparison_is_asked_by(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rate = np.r_[np.ones(7), np.full(PLANNED - 7, 0.85)] * (1 + rng.normal(0, 0.01, PLANNED))
    whole = measured(**{RATE: rate}, **scattered(rng, 0.04, **{P99: 1.0}))
    found = until(whole, SequentialStopRule().decided)
    assert judge_comparison(found).effect in (Effect.SLOWER, Effect.INCONCLUSIVE)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_held_beside_is_that_of_all_units(seed: int) -> None:
    """CPU per record was 30 % more in all 24 units, and known to -3 .. +50 % in the four that decided the rate."""
    rng = np.random.default_rng(seed)
    whole = measured(
        **scattered(rng, 0.003, **{RATE: 1.0}),
        **scattered(rng, 0.04, **{P99: 1.0}),
        **scattered(rng, 0.15, **{CPU: 1.3}),
    )
    found = until(whole, SequentialStopRule().decided)
    outcome = judge_comparison(found)
    assert outcome.effect is Effect.SLOWER
    assert "broker_cpu_us_per_record is +" in outcome.reasons[0]
    assert outcome.units == len(found.orders)


def test_a_loss_that_was_told_stays_told() -> None:
    """Its error is spent: what comes later does not take it back. A gain does not outlast a loss."""
    down = [-0.2, -0.21, -0.19, -0.2]
    up = [-x for x in down]
    assert judge_units([*down, *[0.3] * 16], 20, final=True, worse=-1)[0] == -1
    assert judge_units([*up, *[-0.3] * 16], 20, final=True, worse=-1)[0] is None
    assert judge_units([*up, *[-0.3] * 16], 20, final=True)[0] == 1, "where it ended there"
    assert judge_units(up, 20, final=True, worse=-1)[0] == 1, "the look at all units tells it"
