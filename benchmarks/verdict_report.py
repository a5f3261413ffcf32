"""Tables of the recorded comparisons and their verdicts: ``python -m benchmarks.verdict_report``.

The units that benchmarks/verdict_quality.py recorded are judged by the suite's rules and by those of others.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.verdict_quality import BUSY_ROWS, CASES, DELAYS, recorded
from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.claims.ratio import claim_of
from perfgate.judge.sequential import first_decision
from tests.harness.build.units import judge_units

RESAMPLED = 300
BUDGETS_MIN = (5, 10, 15, 20)
EFFECTS = (0.0, -0.05, -0.10, 0.10, -0.50, -0.75, -0.95)
REFERENCE_MIN, REFERENCE_TIMES, REFERENCE_EFFECTS = 9, 1000, (0.0, -0.05, -0.10, -0.20, -0.50, -0.75, -0.95)
"""Five scenarios in 45 min."""
SHIPPED = Path(__file__).parents[1] / "perfgate" / "catalogue"
BLOCK = 2
"""Recorded units are drawn in blocks of so many neighbours, so that what lasts longer than a unit stays together."""


def unit_logs_of(entry: Mapping[str, Any]) -> list[float]:
    """Return the logarithm of candidate over baseline of each unit of a comparison."""
    return [math.log(b / a) for a, b in zip(entry["baseline"], entry["candidate"], strict=True)]


def same(live: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the comparisons in which nothing was changed."""
    names = [case.name for case in CASES if case.baseline == case.candidate]
    return [entry for entry in live if entry["case"] in names]


def unit_pools(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[list[float]], float]]:
    """Give the recorded units in which nothing was changed: a name, their logarithms by stretch of time, s per unit."""
    sound = [e for e in same([e for e in entries if e["kind"] == "comparison"]) if not e["reasons"]]
    if sound:
        unit_s = statistics.median(60 * e["minutes"] / e["units"] for e in sound)
        pools = [unit_logs_of(e) for e in sound]
        yield f"cross-az, {sum(map(len, pools))} of the live comparisons", pools, unit_s
    for row in BUSY_ROWS:
        units = [e for e in entries if e["kind"] == "series" and e["row"] == row.name and not e["invalid"]]
        if len(units) > 20:
            logs = [math.log(b / a) for a, b in (e["records_per_s"] for e in units)]
            unit_s = float(statistics.median(np.diff([e["started"] for e in units])))
            yield f"{row.name}, {len(units)} in one go", [logs], unit_s


def drawn_units(
    pools: Sequence[Sequence[float]], planned: int, effect: float, seed: int, times: int = RESAMPLED
) -> Iterator[list[float]]:
    """Give the units of comparisons drawn from recorded ones, with their mean taken off and moved by `effect`.

    Blocks of neighbours are drawn with replacement from one pool at a time; a block never crosses from pool to pool.
    """
    rng, mean = np.random.default_rng(seed), statistics.mean(log for pool in pools for log in pool)
    blocks = [pool[i : i + BLOCK] for pool in pools for i in range(len(pool) - BLOCK + 1)]
    for _ in range(times):
        drawn = rng.integers(len(blocks), size=-(-planned // BLOCK))
        yield [value - mean + math.log1p(effect) for index in drawn for value in blocks[index]][:planned]


def others_say(before: Sequence[float], after: Sequence[float], limit: float) -> dict[str, bool]:
    """Return which of the usual ways call the candidate slower, from the same raw rounds.

    Median: pytest-benchmark's compare-fail of median:5 %. Mann-Whitney: two-sided, p < 0.05, and slower. Fixed limit:
    below 95 % of the `limit` that was stored once. Otava: a change point where the candidate's rounds follow the
    baseline's, and lower.
    """
    from otava.analysis import compute_change_points

    slower = statistics.median(after) < statistics.median(before)
    points, _ = compute_change_points([*before, *after], window_len=30, max_pvalue=0.05, min_magnitude=0.0)
    near = any(abs(point.index - len(before)) <= 1 for point in points)
    return {
        "median over 5 %": statistics.median(after) < 0.95 * statistics.median(before),
        "Mann-Whitney": slower and stats.mannwhitneyu(before, after).pvalue < 0.05,
        "fixed limit": statistics.median(after) < 0.95 * limit,
        "Otava": slower and near,
    }


def upper_bound(hits: int, tries: int) -> float:
    """Return the 95 % upper bound of a share (Clopper and Pearson)."""
    return float(stats.beta.ppf(0.95, hits + 1, tries - hits)) if hits < tries else 1.0


def main() -> int:
    """Print what was found, as tables."""
    entries = recorded()
    live = [entry for entry in entries if entry["kind"] == "comparison"]
    rates = {
        delay: [e["records_per_s"] for e in entries if e["kind"] == "true" and e["delay"] == delay] for delay in DELAYS
    }
    print("### True sizes: whole rounds of 6 s at either delay\n\n| delays | rates, records/s (spread) | true effect |")
    print("|---|---|---|")
    for case in CASES:
        if case.baseline != case.candidate:
            a, b = rates[case.baseline], rates[case.candidate]
            effect = statistics.median(b) / statistics.median(a) - 1
            spreads = [statistics.stdev(x) / statistics.mean(x) * 100 for x in (a, b)]
            print(
                f"| {case.name} ms | {statistics.median(a):,.0f} ({spreads[0]:.1f} %), {statistics.median(b):,.0f} "
                f"({spreads[1]:.1f} %) | {effect * 100:+.1f} % |"
            )
    print(
        "\n### Live comparisons, budget 10 min (A/A: 2 min)\n\n"
        "| delays | comparisons | SLOWER | FASTER | SAME | not decided | estimates | minutes |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        mine = [entry for entry in live if entry["case"] == case.name]
        if mine:
            counts = Counter(entry["verdict"] for entry in mine)
            means = [math.expm1(statistics.mean(unit_logs_of(e))) * 100 for e in mine if not e["reasons"]]
            minutes = [entry["minutes"] for entry in mine]
            print(
                f"| {case.name} ms | {len(mine)} | {counts['SLOWER']} | {counts['FASTER']} | {counts['SAME']} | "
                f"{counts['INCONCLUSIVE'] + counts['INVALID']} | {min(means):+.1f} .. {max(means):+.1f} % | "
                f"{min(minutes):.1f} .. {max(minutes):.1f} |"
            )
    print("\n### Is either side favoured?\n")
    _print_favour(entries)
    print(f"\n### Resampled from the recorded units ({RESAMPLED} comparisons each, blocks of {BLOCK}, 10 min)\n")
    print(
        "| units | scatter of a unit | effect | SLOWER | FASTER | SAME | not decided |\n|---|---|---|---|---|---|---|"
    )
    false, tries = sum(e["verdict"] in ("SLOWER", "FASTER") for e in same(live)), len(same(live))
    for number, (words, pools, unit_s) in enumerate(unit_pools(entries)):
        planned = int(600 / unit_s)
        for effect in EFFECTS:
            units = drawn_units(pools, planned, effect, number)
            found = Counter(judge_units(logs, planned, final=True)[0] for logs in units)
            print(
                f"| {words} | {statistics.stdev(log for pool in pools for log in pool) * 100:.1f} % | "
                f"{f'moved by {effect * 100:+.0f} %' if effect else 'none'} | "
                f"{found[-1]} | {found[1]} | {found[0]} | {found[None]} |"
            )
            if not effect:
                false, tries = false + found[-1] + found[1], tries + RESAMPLED
    print(
        f"\nNothing changed, live and resampled: {false} false SLOWER or FASTER in {tries} comparisons, "
        f"95 % upper bound {upper_bound(false, tries) * 100:.1f} %; live alone: {len(same(live))}."
    )
    _print_by_budget(entries)
    _print_against_a_reference(entries)
    print("\n### The same raw rounds, judged in other ways: called slower\n")
    ways = ("this suite", "median over 5 %", "Mann-Whitney", "fixed limit", "Otava")
    print(f"| delays | comparisons | {' | '.join(ways)} |\n|---|---|{'---|' * len(ways)}")
    for case in CASES:
        mine = [entry for entry in live if entry["case"] == case.name and not entry["reasons"]]
        if mine:
            limit = statistics.median(mine[0]["baseline"])
            said = Counter[str]()
            for entry in mine:
                said.update(way for way, red in others_say(entry["baseline"], entry["candidate"], limit).items() if red)
                said["this suite"] += entry["verdict"] == "SLOWER"
            print(f"| {case.name} ms | {len(mine)} | {' | '.join(str(said[way]) for way in ways)} |")
    _print_others_on_busy_rows(entries, ways)
    return 0


def _print_by_budget(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print how many of the drawn comparisons are decided within each budget: unchanged ones, and 10 % slower ones."""
    print(
        "\n### By budget: unchanged ones that are SAME; SLOWER ones of those moved by -10 %\n\n"
        f"| units | {' | '.join(f'{minutes} min' for minutes in BUDGETS_MIN)} |\n|---|{'---|' * len(BUDGETS_MIN)}"
    )
    for number, (words, pools, unit_s) in enumerate(unit_pools(entries)):
        cells = []
        for minutes in BUDGETS_MIN:
            planned = int(60 * minutes / unit_s)
            alike, slower = (
                sum(judge_units(logs, planned, final=True)[0] == decision for logs in drawn)
                for decision, drawn in (
                    (0, drawn_units(pools, planned, 0.0, number)),
                    (-1, drawn_units(pools, planned, -0.10, number)),
                )
            )
            cells.append(f"{alike / RESAMPLED * 100:.0f} %; {slower / RESAMPLED * 100:.0f} %")
        print(f"| {words} | {' | '.join(cells)} |")


def _print_against_a_reference(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print what a nightly against a reference says of the rate, by the shipped ratio, and when it has said so."""
    (ratio,) = (one for one in load_ratios(SHIPPED).default if one.metric.name == "records_per_s")
    claim = claim_of(ratio)
    print(
        f"\n### Against a reference: at least {ratio.limit:g} of its rate; {REFERENCE_MIN} min a scenario, "
        f"{REFERENCE_TIMES} drawn for each line\n\n| units | true effect | red | green | undecided | median minutes |"
    )
    print("|---|---|---|---|---|---|")
    for number, (words, pools, unit_s) in enumerate(unit_pools(entries)):
        planned = int(REFERENCE_MIN * 60 / unit_s)
        for effect in REFERENCE_EFFECTS:
            found, minutes = Counter[bool | None](), []
            for logs in drawn_units(pools, planned, effect, number, REFERENCE_TIMES):
                verdict, at = first_decision(logs, planned, claim.decide, ends=lambda _: True, final=True)
                found[verdict.red if verdict else None] += 1
                minutes.append(at.units * unit_s / 60)
            shares = (f"{found[key] / REFERENCE_TIMES * 100:.1f} %" for key in (True, False, None))
            print(f"| {words} | {effect * 100:+.0f} % | {' | '.join(shares)} | {statistics.median(minutes):.1f} |")


def _print_favour(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print whether either side was faster than itself."""
    print("| units in which nothing was changed | mean of B over A | 95 % interval |\n|---|---|---|")
    pools = [(words, [log for pool in pools for log in pool]) for words, pools, _ in unit_pools(entries)]
    old = [e["records_per_s"] for e in entries if e["kind"] == "series_a_warms_up_first"]
    pools.append(("A always warming up first, the three busy rows", [math.log(b / a) for a, b in old]))
    for words, logs in pools:
        mean, reach = statistics.mean(logs), stats.t.isf(0.025, len(logs) - 1) * stats.sem(logs)
        low, high = (math.expm1(mean + sign * reach) * 100 for sign in (-1, 1))
        print(f"| {words} | {math.expm1(mean) * 100:+.1f} % | {low:+.1f} .. {high:+.1f} % |")
    print()


def _print_others_on_busy_rows(entries: Sequence[Mapping[str, Any]], ways: Sequence[str]) -> None:
    """Print the same for rows whose rounds scatter: 9 rounds a side, drawn from the series, the candidate's moved."""
    rng = np.random.default_rng(99)
    for row in BUSY_ROWS:
        pairs = [
            e["records_per_s"] for e in entries if e["kind"] == "series" and e["row"] == row.name and not e["invalid"]
        ]
        if len(pairs) < 20:
            continue
        for effect in (0.0, -0.10):
            said = Counter[str]()
            limit = statistics.median(a for a, _ in pairs)
            for _ in range(100):
                first = int(rng.integers(len(pairs) - 9))
                before = [a for a, _ in pairs[first : first + 9]]
                after = [b * (1 + effect) for _, b in pairs[first : first + 9]]
                said.update(way for way, red in others_say(before, after, limit).items() if red)
                logs = [math.log(b / a) for a, b in zip(before, after, strict=True)]
                said["this suite"] += judge_units(logs, 9, final=True)[0] == -1
            print(
                f"| {row.name}, moved by {effect * 100:+.0f} %, 9 units | 100 drawn | "
                f"{' | '.join(str(said[way]) for way in ways)} |"
            )


if __name__ == "__main__":
    sys.exit(main())
