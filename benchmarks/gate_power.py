"""Drawn runs, judged by the product's own rules: what the gate sees. ``python -m benchmarks.gate_power``.

A run's figures scatter twice: between the rounds of a run, and between runs (brokers started anew, another state of the
machine). Both are drawn from lognormal distributions. A profile is recorded from PROFILE_RUNS such runs, a scenario is
held in two metrics, of which a slowdown changes one, and what is red is measured again. The second run shares a part of
the first one's deviation, because a machine's state does not end with a fresh cluster.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import Counter

import numpy as np

from fixtures.command_line import TIERS
from perfgate.judge.confirmation import second_look
from perfgate.judge.limits import ROWS, reach_of
from perfgate.judge.rules import verdict_of
from perfgate.judge.threshold_rule import judge_threshold
from perfgate.judge.thresholds import LARGEST_REACH
from perfgate.model import METRICS, MetricInfo, Outcome, Threshold, Verdict
from perfgate.model.summary import centre
from perfgate.report.proposal import TOLERANCE as STATED

TOLERANCE = STATED["records_per_s"]
PROFILE_RUNS = 20
NOISE = ((0.04, 0.03), (0.08, 0.03), (0.15, 0.03), (0.04, 0.08), (0.08, 0.08), (0.15, 0.08))
"""Between the rounds of a run, and between runs."""
SLOWDOWNS = (0.05, 0.10, 0.20, 0.25, 0.30)
DRAWS, UNCHANGED_DRAWS = 1000, 10_000
RATE, CPU = METRICS["records_per_s"], METRICS["broker_cpu_us_per_record"]
BASELINE = 1000.0


class Lab:
    """Draws runs of one kind of machine and one tier."""

    def __init__(self, rounds: int, within: float, between: float, correlation: float, seed: int = 1) -> None:
        self._rounds, self._within, self._between, self._correlation = rounds, within, between, correlation
        self._random = np.random.default_rng(seed)

    def thresholds(self) -> tuple[Threshold, Threshold]:
        """Return what PROFILE_RUNS unchanged runs make of either metric."""
        return self._threshold(RATE), self._threshold(CPU)

    def _threshold(self, metric: MetricInfo) -> Threshold:
        deviations = self._random.normal(0.0, self._between, (PROFILE_RUNS, 1))
        noise = self._random.normal(0.0, self._within, (PROFILE_RUNS, self._rounds))
        runs = [centre(rounds) for rounds in (BASELINE * np.exp(deviations + noise)).tolist()]
        baseline = statistics.median(runs)
        spread = statistics.stdev(runs) / baseline
        reach = min(LARGEST_REACH, reach_of(TOLERANCE, spread, PROFILE_RUNS))
        return Threshold(
            scenario="row",
            metric=metric,
            baseline=baseline,
            tolerance=TOLERANCE,
            spread=spread,
            runs=PROFILE_RUNS,
            reach=reach,
        )

    def _deviation(self) -> float:
        return float(self._random.normal(0.0, self._between))

    def _rates(self, factor: float, deviation: float) -> list[float]:
        noise = self._random.normal(0.0, self._within, self._rounds)
        return [BASELINE * factor * math.exp(deviation + one) for one in noise]

    def verdict(self, held: tuple[Threshold, Threshold], rate: float, cpu: float) -> Verdict:
        """Return a scenario's verdict when its rate and CPU are so many times their true unchanged ones."""
        factors, states = (rate, cpu), [self._deviation(), self._deviation()]
        first = self._look(held, factors, states)
        if first.verdict is not Verdict.REGRESSED:
            return first.verdict
        share = self._correlation
        states = [share * state + math.sqrt(1 - share**2) * self._deviation() for state in states]
        return second_look(first, self._look(held, factors, states)).verdict

    def _look(self, held: tuple[Threshold, Threshold], factors: tuple[float, float], states: list[float]) -> Outcome:
        judgements = tuple(
            judge_threshold(self._rates(factor, state), threshold)
            for threshold, factor, state in zip(held, factors, states, strict=True)
        )
        return Outcome(name="row", verdict=verdict_of(judgements), judgements=judgements)


def shares(lab: Lab, rate: float, cpu: float, draws: int) -> tuple[float, float, float]:
    """Return how often a scenario is red, green, undecided."""
    found: Counter[str] = Counter()
    for _ in range(draws):
        verdict = lab.verdict(lab.thresholds(), rate, cpu)
        found["red" if verdict is Verdict.REGRESSED else "green" if verdict.green else "undecided"] += 1
    return found["red"] / draws, found["green"] / draws, found["undecided"] / draws


def main() -> int:
    """Print the tables of docs/verdict-quality.md."""
    tiers = TIERS.values()
    print(
        "| tier | noise between rounds, runs | unchanged: green | red in a night of 50 | the same, state half shared |"
    )
    print("|---|---|---|---|---|")
    for tier in tiers:
        for within, between in NOISE:
            cells = []
            for correlation in (0.0, 0.5):
                red, green, _ = shares(Lab(tier.rounds, within, between, correlation), 1.0, 1.0, UNCHANGED_DRAWS)
                cells.append((1 - (1 - red) ** ROWS, green))
            print(
                f"| {tier.name} | {within * 100:.0f} / {between * 100:.0f} % | {cells[0][1] * 100:.1f} % | "
                f"{cells[0][0] * 100:.1f} % | {cells[1][0] * 100:.1f} % |",
                flush=True,
            )
    print("\n| tier | noise | metric | " + " | ".join(f"{s * 100:.0f} % worse" for s in SLOWDOWNS) + " |")
    print("|---|---|---|" + "---|" * len(SLOWDOWNS))
    for tier in tiers:
        for within, between in NOISE:
            for metric in ("rate", "CPU"):
                cells_of = []
                for slowdown in SLOWDOWNS:
                    factors = (1 - slowdown, 1.0) if metric == "rate" else (1.0, 1 + slowdown)
                    red, green, undecided = shares(Lab(tier.rounds, within, between, 0.5), *factors, DRAWS)
                    cells_of.append(f"{red * 100:.0f} / {green * 100:.0f} / {undecided * 100:.0f}")
                print(
                    f"| {tier.name} | {within * 100:.0f} / {between * 100:.0f} % | {metric} | "
                    + " | ".join(cells_of)
                    + " |",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
