"""Drawn runs, judged by the product's own rules: what the gate sees. ``python -m benchmarks.gate_power``.

``--early``: the same runs measured whole, and ended where fewer rounds are enough (judge/gate_stop.py). ``--recorded
RUN.json.gz``: after which of its rounds each scenario of that run ends, with thresholds around what it measured.

A run's figures scatter twice: between the rounds of a run, and between runs (brokers started anew, another state of the
machine). Both are drawn from lognormal distributions. A profile is recorded from PROFILE_RUNS such runs, a scenario is
held in two metrics, of which a slowdown changes one, and what is red is measured again. The second run shares a part of
the first one's deviation, because a machine's state does not end with a fresh cluster.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import math
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfgate.catalogue.bases import PAPER
from perfgate.judge.claim import worst
from perfgate.judge.claims.threshold import judge_threshold
from perfgate.judge.confirmation import second_look, stands_alone
from perfgate.judge.gate_stop import FEWEST_SURE, GateStopRule, kept_by_far
from perfgate.judge.limits import SCENARIOS, reach_of
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.thresholds import largest_reach
from perfgate.measure.assembly import unmeasured
from perfgate.model import METRICS, Measurement, MetricInfo, Outcome, Profile, Threshold, Verdict
from perfgate.model.summary import centre
from perfgate.model.usual import TIERS
from perfgate.report.proposal import TOLERANCE as STATED
from perfgate.report.results import load_run, recorded_measurement
from tests.harness.build import flawed

PROFILE_RUNS = 20
NOISE = ((0.04, 0.03), (0.08, 0.03), (0.15, 0.03), (0.04, 0.08), (0.08, 0.08), (0.15, 0.08))
"""Between the rounds of a run, and between runs."""
SLOWDOWNS = (0.05, 0.10, 0.20, 0.25, 0.30)
DRAWS, UNCHANGED_DRAWS = 1000, 10_000
RATE, CPU, P99 = METRICS["records_per_s"], METRICS["broker_cpu_us_per_record"], METRICS["latency_ms.p99"]
BASELINE = 1000.0
LOSSES = (("-50 %", 0.5), ("-75 %", 0.25), ("-95 %", 0.05))
CATASTROPHES = (
    ("rate", RATE, False, LOSSES),
    ("stalls, rate", RATE, True, LOSSES),
    ("p99", P99, False, (("2 x", 2.0), ("4 x", 4.0), ("20 x", 20.0))),
)
"""What changes, whether brokers stall, and by how much."""
STALLS_SCATTER = 0.5
"""Standard deviation of the logarithm of the growth within a window: brokers that stand still for half of the time."""


class Lab:
    """Draws runs of one kind of machine and one tier."""

    def __init__(
        self,
        rounds: int,
        within: float,
        between: float,
        correlation: float,
        seed: int = 1,
        *,
        heavy: bool = False,
        early: bool = False,
    ) -> None:
        """`heavy`: rounds scatter by Student's t with 3 degrees of freedom, scaled to the same standard deviation.

        `early`: no rounds are measured after those that are enough, but for the confirmation run.
        """
        self._rounds, self._within, self._between, self._correlation = rounds, within, between, correlation
        self._random = np.random.default_rng(seed)
        self._heavy, self._early = heavy, early
        self.measured: list[int] = []
        """Rounds of each scenario's first look."""

    def thresholds(self) -> tuple[Threshold, Threshold]:
        """Return what PROFILE_RUNS unchanged runs make of either metric."""
        return self._threshold(RATE), self._threshold(CPU)

    def _threshold(self, metric: MetricInfo) -> Threshold:
        deviations = self._random.normal(0.0, self._between, (PROFILE_RUNS, 1))
        noise = self._noise((PROFILE_RUNS, self._rounds))
        runs = [centre(rounds) for rounds in (BASELINE * np.exp(deviations + noise)).tolist()]
        baseline = statistics.median(runs)
        spread = statistics.stdev(runs) / baseline
        tolerance = STATED[metric.name]
        reach = min(largest_reach(metric.name), reach_of(tolerance, spread, PROFILE_RUNS))
        return Threshold(
            scenario="row",
            metric=metric,
            baseline=baseline,
            tolerance=tolerance,
            spread=spread,
            runs=PROFILE_RUNS,
            reach=reach,
        )

    def _deviation(self) -> float:
        return float(self._random.normal(0.0, self._between))

    def _noise(self, shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        if self._heavy:
            return self._random.standard_t(3, shape) / math.sqrt(3.0) * self._within
        return self._random.normal(0.0, self._within, shape)

    def _rates(self, factor: float, deviation: float) -> list[float]:
        noise = self._noise((self._rounds,))
        return [BASELINE * factor * math.exp(deviation + one) for one in noise]

    def verdict(self, held: tuple[Threshold, Threshold], rate: float, cpu: float) -> Verdict:
        """Return a scenario's verdict when its rate and CPU are so many times their true unchanged ones."""
        factors, states = (rate, cpu), [self._deviation(), self._deviation()]
        first = self._look(held, factors, states, early=self._early)
        if first.verdict is not Verdict.REGRESSED:
            return first.verdict
        share = self._correlation
        states = [share * state + math.sqrt(1 - share**2) * self._deviation() for state in states]
        return second_look(first, self._look(held, factors, states)).verdict

    def catastrophe(self, metric: MetricInfo, factor: float, *, stalls: bool = False) -> Verdict:
        """Return the verdict of a scenario held in one metric, which is so many times its unchanged one.

        `stalls`: brokers stand still again and again, so that no round's rate is steady, and it grows or falls within
        the window by chance.
        """
        held = Profile(name="", facts={}, thresholds={PAPER.name: (self._threshold(metric),)}, path="")
        states = [self._deviation() for _ in range(2)]
        states[1] = self._correlation * states[0] + math.sqrt(1 - self._correlation**2) * states[1]
        looks = [judge_scenario(self._measurement(metric, factor, state, stalls), held) for state in states]
        if looks[0].verdict is not Verdict.REGRESSED:
            return looks[0].verdict
        return second_look(looks[0], looks[1], alone=stands_alone(looks[0], held)).verdict

    def _measurement(self, metric: MetricInfo, factor: float, state: float, stalls: bool) -> Measurement:
        rounds = []
        for index, value in enumerate(self._rates(factor, state), start=1):
            growth = math.exp(self._random.normal(0.0, STALLS_SCATTER)) if stalls else 1.0
            one = flawed(unmeasured(index, ""), invalid=(), metrics={metric.name: value})
            rounds.append(replace(one, steady=not stalls, growth=growth))
        return Measurement(scenario=PAPER, rounds=tuple(rounds), rtt_ms={})

    def _look(
        self,
        held: tuple[Threshold, Threshold],
        factors: tuple[float, float],
        states: list[float],
        *,
        early: bool = False,
    ) -> Outcome:
        drawn = [self._rates(factor, state) for factor, state in zip(factors, states, strict=True)]
        looks = range(FEWEST_SURE, self._rounds) if early else ()
        sure = (
            count
            for count in looks
            if all(kept_by_far(values[:count], one) for values, one in zip(drawn, held, strict=True))
        )
        count = next(sure, self._rounds)
        self.measured.append(count)
        judgements = tuple(judge_threshold(v[:count], one) for v, one in zip(drawn, held, strict=True))
        return Outcome(name="row", verdict=worst(one.verdict for one in judgements), judgements=judgements)


def shares(lab: Lab, rate: float, cpu: float, draws: int) -> tuple[float, float, float]:
    """Return how often a scenario is red, green, undecided."""
    found: Counter[str] = Counter()
    for _ in range(draws):
        verdict = lab.verdict(lab.thresholds(), rate, cpu)
        found["red" if verdict is Verdict.REGRESSED else "green" if verdict.green else "undecided"] += 1
    return found["red"] / draws, found["green"] / draws, found["undecided"] / draws


def print_catastrophes() -> None:
    """Print how often scenarios are red that are many times as slow, in percent."""
    heads = [f"{word} {times}" for word, _, _, columns in CATASTROPHES for times, _ in columns]
    print("| tier | noise | rounds scatter | " + " | ".join(heads) + " |")
    print("|---|---|---|" + "---|" * len(heads))
    for tier in TIERS.values():
        for (within, between), heavy in itertools.product(((0.04, 0.03), (0.08, 0.03), (0.15, 0.08)), (False, True)):
            cells = []
            for _, metric, stalls, columns in CATASTROPHES:
                for _, factor in columns:
                    lab = Lab(tier.rounds, within, between, 0.5, heavy=heavy)
                    verdicts = [lab.catastrophe(metric, factor, stalls=stalls) for _ in range(DRAWS)]
                    cells.append(f"{sum(verdict.red for verdict in verdicts) / DRAWS * 100:.1f}")
            scatter = "heavy tails" if heavy else "normally"
            noise = f"{within * 100:.0f} / {between * 100:.0f} %"
            print(f"| {tier.name} | {noise} | {scatter} | " + " | ".join(cells) + " |", flush=True)


def print_early() -> None:
    """Print what is found of a rate, whole and ended early, and how many rounds that takes."""
    columns = (0.0, *SLOWDOWNS)
    words = ["unchanged", *(f"{slowdown * 100:.0f} % worse" for slowdown in SLOWDOWNS)]
    print("| tier | noise between rounds, runs | " + " | ".join(words) + " |")
    print("|---|---|" + "---|" * len(columns))
    for name in ("nightly", "full"):
        for within, between in NOISE:
            cells = []
            for slowdown in columns:
                found = []
                for early in (False, True):
                    lab = Lab(TIERS[name].rounds, within, between, 0.5, early=early)
                    red, green, _ = shares(lab, 1 - slowdown, 1.0, DRAWS if slowdown else UNCHANGED_DRAWS)
                    found.append(f"{red * 100:.1f} / {green * 100:.1f}")
                found.append(f"{statistics.fmean(lab.measured):.1f} rounds")
                cells.append(", ".join(found))
            print(f"| {name} | {within * 100:.0f} / {between * 100:.0f} % | " + " | ".join(cells) + " |", flush=True)


def print_recorded(path: Path) -> None:
    """Print how many rounds a recorded run needs where it is as its baselines, and where it is worse by a tenth."""
    with tempfile.TemporaryDirectory() as folder:
        (plain := Path(folder) / "run.json").write_bytes(gzip.decompress(path.read_bytes()))
        found = [recorded_measurement(entry) for entry in load_run(plain)["scenarios"]]
    whole = [m for m in found if len(m.rounds) > FEWEST_SURE and not any(r.failover for r in m.rounds)]
    for worse in (0.0, 0.1):
        needed = [_needed(one, worse) for one in whole]
        ended = sum(count < len(one.rounds) for count, one in zip(needed, whole, strict=True))
        rounds = sum(len(one.rounds) for one in whole)
        print(f"{worse * 100:g} % worse: {ended} of {len(whole)} scenarios end early, {sum(needed)} of {rounds} rounds")


def _needed(measurement: Measurement, worse: float) -> int:
    rounds, name = measurement.rounds, measurement.scenario.name
    held = [
        Threshold(
            scenario=name,
            metric=metric,
            baseline=centre([r.metrics[metric.name] for r in rounds]) / (1 - worse) ** metric.sign,
            tolerance=STATED[metric.name],
            reach=STATED[metric.name],
        )
        for metric in (METRICS[one] for one in (*measurement.scenario.judged, CPU.name))
        if metric.name in STATED and all(metric.name in r.metrics for r in rounds)
    ]
    rule = GateStopRule(profile=Profile(name="", facts={}, thresholds={name: tuple(held)}, path=""), rounds=len(rounds))
    parts = ((count, replace(measurement, rounds=rounds[:count])) for count in range(FEWEST_SURE, len(rounds)))
    return next((count for count, part in parts if rule.sure(part.scenario, {name: part})), len(rounds))


def main() -> int:
    """Print the tables of docs/verdict-quality.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--early", action="store_true", help="runs measured whole, and ended as soon as they may")
    parser.add_argument("--recorded", type=Path, metavar="RUN.json.gz", help="when each scenario of this run ends")
    asked = parser.parse_args()
    if asked.recorded:
        print_recorded(asked.recorded)
        return 0
    if asked.early:
        print_early()
        return 0
    print_catastrophes()
    print()
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
                cells.append((1 - (1 - red) ** SCENARIOS, green))
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
