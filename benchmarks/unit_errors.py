"""Errors on units that are correlated or skewed, as tables: ``python -m benchmarks.unit_errors``.

Draws comparisons in which nothing differs and judges them by the suite's rules; then comparisons that were moved.
Units scatter by 50 %, so that no early SAME hides an error. Simulation; 3 min.
"""

from __future__ import annotations

import math
import sys
from collections import Counter

import numpy as np
import numpy.typing as npt

from perfgate.judge.compare.sequential import judge_units

DRAWS = 20_000
SCATTER = 0.5
PLANNED = (5, 9, 40, 85)
KINDS = (
    "independent",
    "correlated by 0.3",
    "correlated by 0.5",
    "exponential",
    "exponential, mirrored",
    "lognormal",
)
MOVED = (
    (-0.105, 0.02, 5),
    (-0.385, 0.05, 5),
    (-0.105, 0.03, 9),
    (-0.105, 0.09, 9),
    (-0.105, 0.1, 40),
    (-0.052, 0.09, 40),
    (-0.105, 0.1, 85),
    (-0.052, 0.09, 85),
)


def drawn(kind: str, draws: int, units: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return comparisons of so many units each: mean 0, standard deviation 1.

    Lognormal: of a normal number with standard deviation 0.5, skewness 1.75 (the exponential's is 2).
    """
    if kind.startswith("exponential"):
        return (rng.exponential(size=(draws, units)) - 1) * (-1 if kind.endswith("mirrored") else 1)
    noise = rng.normal(size=(draws, units))
    if kind == "lognormal":
        mean = math.exp(0.125)
        return (np.exp(noise / 2) - mean) / (mean * math.sqrt(math.expm1(0.25)))
    if kind.startswith("correlated"):
        share = float(kind.rpartition(" ")[2])
        for unit in range(1, units):
            noise[:, unit] = share * noise[:, unit - 1] + math.sqrt(1 - share**2) * noise[:, unit]
    return noise


def main() -> int:
    """Print the tables."""
    print("| units | planned | false SLOWER in 1,000 | false FASTER in 1,000 |\n|---|---|---|---|")
    for kind in KINDS:
        for planned in PLANNED:
            units = drawn(kind, DRAWS, planned, np.random.default_rng(planned)) * SCATTER
            said = Counter(judge_units(logs, planned, final=True)[0] for logs in units)
            print(f"| {kind} | {planned} | {said[-1] * 1000 / DRAWS:.1f} | {said[1] * 1000 / DRAWS:.1f} |", flush=True)
    print("\n| moved by | scatter of a unit | planned | SLOWER | units used |\n|---|---|---|---|---|")
    for effect, scatter, planned in MOVED:
        units = np.random.default_rng(planned).normal(math.log1p(effect), scatter, (2000, planned))
        found = [judge_units(logs, planned, final=True) for logs in units]
        slower, used = (sum(d == -1 for d, _ in found) / len(found), np.mean([e.units for _, e in found]))
        print(f"| {effect * 100:+.1f} % | {scatter * 100:.0f} % | {planned} | {slower * 100:.1f} % | {used:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
