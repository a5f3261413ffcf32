"""Errors on units that are correlated or skewed, as tables: ``python -m benchmarks.unit_errors``.

Draws comparisons in which nothing differs and judges them by the suite's rules; then comparisons that were moved.
Then pairs of clusters beside recorded ones. Units scatter by 50 %, so that no early SAME hides an error. Simulation;
5 min.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from perfgate.judge.scatter import Parts
from perfgate.judge.sequential import FEWEST_UNITS, PLAIN, decided, looks_until, scheduled
from perfgate.judge.units import FEWEST_WITH_ENDS, OF_THE_ERROR, winsorized
from perfgate.model import RecordedPairs
from tests.harness.build.units import judge_units

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
    (-0.5, 0.1, 4),
    (-0.75, 0.1, 4),
    (-0.95, 0.1, 4),
    (-0.5, 0.3, 4),
    (-0.75, 0.3, 4),
    (-0.95, 0.3, 4),
)


BESIDE = (
    (3, 5, 1.0),
    (3, 8, 1.0),
    (3, 10, 1.0),
    (4, 5, 1.0),
    (4, 8, 1.0),
    (4, 10, 1.0),
    (9, 5, 1.0),
    (9, 8, 1.0),
    (9, 10, 1.0),
    (9, 26, 1.0),
    (3, 8, 1.5),
    (4, 8, 1.5),
    (9, 10, 1.5),
    (9, 26, 1.5),
    (3, 8, 2.0),
    (4, 8, 2.0),
    (9, 10, 2.0),
    (9, 26, 2.0),
)
"""Pairs planned, pairs recorded, and by how many times those at hand scatter more."""
ALIKE = (
    (4, 8, 0.3, 0.3),
    (9, 10, 0.3, 0.3),
    (9, 26, 0.3, 0.3),
    (4, 8, 0.3, 0.0),
    (9, 10, 0.3, 0.0),
    (9, 26, 0.3, 0.0),
    (9, 26, 0.5, 0.0),
)
"""Pairs planned, pairs recorded, and the correlation of neighbours among those at hand and among the recorded ones."""
PAIRS_MOVED = ((-0.1, 5), (-0.2, 3), (-0.2, 4), (-0.2, 5), (-0.3, 3), (-0.3, 4))
OF_PAIRS = 0.05
"""Pairs of the same version differ by some 5 %."""


OF_PARTS = (
    (3, 0.05, 0.02, "normal"),
    (3, 0.05, 0.06, "normal"),
    (3, 0.17, 0.06, "normal"),
    (3, 0.17, 0.06, "heavy tails"),
    (4, 0.05, 0.06, "normal"),
    (6, 0.05, 0.06, "normal"),
    (9, 0.05, 0.06, "normal"),
    (9, 0.17, 0.06, "normal"),
    (3, 0.05, 0.09, "normal"),
    (6, 0.05, 0.09, "normal"),
    (3, 0.05, 0.12, "normal"),
    (6, 0.05, 0.12, "normal"),
)
"""Pairs planned, by how much their six parts scatter, by how much clusters do (0.06 is what the judge expects at most),
and the kind of the parts' noise."""
FOUND = ((3, -0.3), (3, -0.2), (5, -0.2), (6, -0.1), (9, -0.1), (9, 0.0))
"""Pairs planned and the effect."""


def beside_recorded(
    planned: int,
    recorded: int,
    times: float,
    draws: int,
    mean: float = 0.0,
    scatter: float = SCATTER,
    alike: tuple[float, float] = (0.0, 0.0),
) -> Counter[int | None]:
    """Return what was said of so many comparisons of pairs, each beside recorded pairs of its own.

    `alike`: the correlation of neighbours among the pairs at hand, and among the recorded ones.
    """
    rng = np.random.default_rng((planned, recorded))
    said = Counter[int | None]()
    here, before = (f"correlated by {share}" for share in alike)
    for _ in range(draws):
        effects = tuple((scatter * drawn(before, 1, recorded, rng)[0]).tolist()) if recorded else ()
        pairs = RecordedPairs(metric="records_per_s", rounds_per_unit=6, effects=effects) if effects else None
        logs = (mean + scatter * times * drawn(here, 1, planned, rng)[0]).tolist()
        said[judge_units(logs, planned, final=True, known=pairs)[0]] += 1
    return said


def with_parts(
    planned: int, parts: int, scatter: float, between: float, draws: int, effect: float = 0.0, kind: str = "normal"
) -> Counter[int | None]:
    """Return what was said of so many comparisons of pairs of clusters, each of so many parts (bursts).

    Parts scatter by `scatter`, clusters by `between`; `kind` "heavy tails": parts by Student's t, 3 degrees of freedom.
    """
    rng, said = np.random.default_rng((planned, parts)), Counter[int | None]()
    for _ in range(draws):
        noise = rng.normal(size=(planned, parts)) if kind == "normal" else rng.standard_t(3, (planned, parts)) / 3**0.5
        logs = scatter * noise + rng.normal(0, between, (planned, 1)) + effect
        known = Parts(tuple(tuple(map(float, pair)) for pair in logs))
        said[judge_units(logs.mean(axis=1).tolist(), planned, final=True, known=known)[0]] += 1
    return said


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
    beside_tables()
    parts_tables()
    winsorized_table()
    return 0


def winsorized_table() -> None:
    """Print how many comparisons in which nothing differs the winsorized units alone make red."""
    print("\n| units | planned | false SLOWER in 1,000 that the winsorized units add |\n|---|---|---|")
    rule = replace(PLAIN, share=OF_THE_ERROR)
    for kind in ("independent", "correlated by 0.3", "correlated by 0.5"):
        for planned in (20, 30):
            added = 0
            for units in drawn(kind, DRAWS, planned, np.random.default_rng(planned)) * SCATTER:
                if judge_units(units, planned, final=True)[0] is not None:
                    continue
                looks = [look for look in scheduled(planned) if look >= FEWEST_WITH_ENDS]
                added += any(
                    decided(winsorized(units[:n].tolist(), looks_until(n, planned, last=n == planned), rule)) == -1
                    for n in looks
                )
            print(f"| {kind} | {planned} | {added * 1000 / DRAWS:.2f} |", flush=True)


def beside_tables() -> None:
    """Print the tables of pairs beside recorded ones."""
    print("\n| pairs planned | recorded | these scatter | false SLOWER in 1,000 | false FASTER in 1,000 |")
    print("|---|---|---|---|---|")
    for planned, recorded, times in BESIDE:
        said = beside_recorded(planned, recorded, times, DRAWS)
        rates = (f"{said[side] * 1000 / DRAWS:.2f}" for side in (-1, 1))
        print(f"| {planned} | {recorded} | x {times:g} | {' | '.join(rates)} |", flush=True)
    print("\n| pairs planned | recorded | these correlated by | those by | false SLOWER in 1,000 | false FASTER |")
    print("|---|---|---|---|---|---|")
    for planned, recorded, here, before in ALIKE:
        said = beside_recorded(planned, recorded, 1.0, DRAWS, alike=(here, before))
        rates = (f"{said[side] * 1000 / DRAWS:.2f}" for side in (-1, 1))
        print(f"| {planned} | {recorded} | {here} | {before} | {' | '.join(rates)} |", flush=True)
    print("\n| moved by | pairs planned | SLOWER beside 8 recorded pairs | without |\n|---|---|---|---|")
    for effect, planned in PAIRS_MOVED:
        told = [beside_recorded(planned, n, 1.0, 2000, math.log1p(effect), OF_PAIRS)[-1] / 20 for n in (8, 0)]
        alone = f"{told[1]:.1f} %" if planned >= FEWEST_UNITS else "never"
        print(f"| {effect * 100:+.0f} % | {planned} | {told[0]:.1f} % | {alone} |", flush=True)


def parts_tables() -> None:
    """Print the tables of pairs with what their parts show."""
    print("\n| pairs planned | their parts scatter | clusters | false SLOWER in 1,000 | false FASTER in 1,000 |")
    print("|---|---|---|---|---|")
    for planned, scatter, between, kind in OF_PARTS:
        said = with_parts(planned, 6, scatter, between, DRAWS, kind=kind)
        rates = (f"{said[side] * 1000 / DRAWS:.2f}" for side in (-1, 1))
        named = "" if kind == "normal" else f", {kind}"
        print(f"| {planned} | {scatter:.0%}{named} | {between:.0%} | {' | '.join(rates)} |", flush=True)
    print("\n| moved by | pairs planned | SLOWER (SAME), parts 5 %, clusters 2 % | parts 12 %, 3 % | parts 17 %, 3 % |")
    print("|---|---|---|---|---|")
    for planned, effect in FOUND:
        told = [
            with_parts(planned, 6, *kind, 1000, math.log1p(effect))
            for kind in ((0.05, 0.02), (0.12, 0.03), (0.17, 0.03))
        ]
        cells = (f"{said[-1] / 10:.1f} % ({said[0] / 10:.1f} %)" for said in told)
        print(f"| {effect:+.0%} | {planned} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
