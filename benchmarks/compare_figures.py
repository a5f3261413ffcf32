"""Tables of the recorded comparisons of broker changes, and of others that are drawn from their units."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from scipy import stats

from benchmarks.compare_lines import Line, half_width, log_interval
from benchmarks.compare_resampled import RESAMPLED, Pool, drawn
from benchmarks.verdict_report import upper_bound
from perfgate.model import ComparisonOutcome, Effect
from perfgate.model.judged import UNSOUND

VERDICTS = ("SLOWER", "FASTER", "SAME", "INCONCLUSIVE")


def _table(title: str, *columns: str) -> None:
    print(f"\n### {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def print_tables(lines: Sequence[Line], entries: Sequence[Mapping[str, Any]]) -> None:
    """Print all tables of what is recorded."""
    mine = {line: [entry for entry in entries if line.is_of(entry)] for line in lines}
    _print_machines(entries)
    _print_live({line: found for line, found in mine.items() if found and not line.name.startswith("example-")})
    _print_sizes([entry for entry in entries if entry.get("kind") == "size"])
    sound = {line: [one for one in found if "failed" not in one] for line, found in mine.items()}
    _print_scatter({line: pool for line, found in sound.items() if (pool := Pool.of(found)) and pool.method == "pairs"})
    _print_resampled(sound)
    _print_each({line: found for line, found in mine.items() if line.name.startswith(("example-", "version-"))})


def _print_machines(entries: Sequence[Mapping[str, Any]]) -> None:
    found = Counter(
        "{cores} cores {cpu_model}, {memory_mib} MiB, {kernel}, commit {commit}".format(**entry["machine"])
        for entry in entries
        if "machine" in entry
    )
    for machine, count in found.items():
        print(f"{count} comparisons on {machine}")


def _print_live(mine: Mapping[Line, Sequence[Mapping[str, Any]]]) -> None:
    _table(
        "Live",
        *("line", "runs", *VERDICTS, "INVALID, BROKEN", "no result", "effects", "interval, half (median, widest)"),
        *("units", "minutes", "must reach"),
    )
    for line, found in mine.items():
        made = [one for one in found if "failed" not in one]
        counts = Counter(one["verdict"] for one in made)
        told = [one for one in made if one["interval"]]
        half = [100 * math.expm1(value) for one in made if (value := log_interval(one)) is not None]
        cells = [
            line.name,
            f"{len(made)} of {line.runs}",
            *(str(counts[name]) for name in VERDICTS),
            str(sum(counts[name] for name in UNSOUND)),
            str(len(found) - len(made)),
            _range([100 * one["estimate"] for one in told], "+.1f", " %"),
            f"{statistics.median(half):.1f} %, {max(half):.1f} %" if half else "-",
            _range([one["units"] for one in made], "d"),
            _range([one["minutes"] for one in made], ".1f"),
            line.must,
        ]
        print(f"| {' | '.join(cells)} |")


def _range(values: Sequence[float], form: str, unit: str = "") -> str:
    return f"{min(values):{form}} .. {max(values):{form}}{unit}" if values else "-"


def _print_sizes(rounds: Sequence[Mapping[str, Any]]) -> None:
    """Print what each setting does to whole rounds: by the ratio to the round as declared of the same number."""
    if not rounds:
        return
    sound = [one for one in rounds if not one["invalid"] and one["records_per_s"]]
    bare = {(one["run"], one["round"]): one for one in sound if not one["settings"]}
    _table(
        "True sizes: whole rounds on one cluster",
        *(
            "scenario",
            "settings",
            "rounds",
            "as declared, records/s",
            "with it",
            "true effect (95 %)",
            "CPU per record",
        ),
    )
    told = {(one["scenario"], str(one["settings"])) for one in sound if one["settings"]}
    for scenario, settings in sorted(told):
        mine = [one for one in sound if (one["scenario"], str(one["settings"])) == (scenario, settings)]
        both = [(bare[one["run"], one["round"]], one) for one in mine if (one["run"], one["round"]) in bare]
        if len(both) < 2:
            continue
        cells = [statistics.median(one["records_per_s"] for one in side) for side in zip(*both, strict=True)]
        effects = [
            _effect([math.log(b[name] / a[name]) for a, b in both if a[name] and b[name]])
            for name in ("records_per_s", "broker_cpu_us_per_record")
        ]
        print(f"| {scenario} | {settings} | {len(both)} | {cells[0]:,.0f} | {cells[1]:,.0f} | {' | '.join(effects)} |")


def _effect(logs: Sequence[float]) -> str:
    if len(logs) < 2:
        return "-"
    mean, reach = statistics.fmean(logs), float(stats.t.isf(0.025, len(logs) - 1)) * statistics.stdev(logs)
    ends = (mean + sign * reach / math.sqrt(len(logs)) for sign in (-1, 1))
    return f"{100 * math.expm1(mean):+.1f} % ({' .. '.join(f'{100 * math.expm1(end):+.1f}' for end in ends)} %)"


def _print_scatter(pools: Mapping[Line, Pool]) -> None:
    """Print how bursts scatter within a pair of clusters, and how much more pairs do than their bursts explain."""
    _table(
        "Pairs of clusters: standard deviations of the logarithm of candidate over baseline",
        *("line", "metric", "pairs", "bursts of each", "bursts within a pair", "pairs", "of it: pairs themselves"),
    )
    for line, pool in pools.items():
        units = [logs for unit in pool.units if len(logs := unit.parts(pool.metric)) > 1]
        if len(units) < 2:
            continue
        size = len(units[0])
        within = math.sqrt(statistics.fmean(statistics.variance(logs) for logs in units))
        between = statistics.stdev(statistics.fmean(logs) for logs in units)
        own = math.sqrt(max(0.0, between**2 - within**2 / size))
        shares = " | ".join(f"{100 * value:.1f} %" for value in (within, between, own))
        print(f"| {line.name} | {pool.metric} | {len(units)} | {size} | {shares} |")


def _print_resampled(mine: Mapping[Line, Sequence[Mapping[str, Any]]]) -> None:
    _table(
        f"Resampled from the recorded units, {RESAMPLED} comparisons each, by the judge as a whole",
        *("units of", "scatter of a unit, mean (95 %)", "effect", "budget", "units", *VERDICTS[:3], "not decided"),
        *("interval, half (median)", "wrong, at most (95 %)", "median minutes"),
    )
    for number, (line, entries) in enumerate(mine.items()):
        if not line.resampled or (pool := Pool.of(entries)) is None or len(pool.logs()) < 4:
            continue
        logs = pool.logs()
        known = f"{len(logs)} of {line.name} | {100 * statistics.stdev(logs):.1f} %, {_effect(logs)}"
        for effect, minutes in line.resampled:
            for beside in (False, True) if line.nothing and pool.method == "pairs" and len(logs) >= 10 else (False,):
                outcomes = list(drawn(pool, effect, minutes, seed=number, beside=beside))
                print(f"| {known} | {_drawn_cells(outcomes, pool, effect, minutes, beside=beside)} |")


def _drawn_cells(
    outcomes: Sequence[ComparisonOutcome], pool: Pool, effect: float | None, minutes: float, *, beside: bool
) -> str:
    counts = Counter(one.effect for one in outcomes)
    lasted = statistics.median(one.units * pool.unit_min for one in outcomes)
    wrong = counts[Effect.SLOWER] + counts[Effect.FASTER] if effect == 0 else None
    half = [half_width(one.primary.interval) for one in outcomes if one.primary]
    what = "as recorded" if effect is None else f"{100 * effect:+.0f} %" if effect else "none"
    cells = [
        what + (", beside recorded pairs" if beside else ""),
        f"{minutes:g} min",
        str(max(2, int(minutes / pool.unit_min))),
        *(str(counts[one]) for one in (Effect.SLOWER, Effect.FASTER, Effect.SAME, Effect.INCONCLUSIVE)),
        f"{100 * math.expm1(statistics.median(half)):.1f} %" if half else "-",
        f"{100 * upper_bound(wrong, len(outcomes)):.1f} %" if wrong is not None else "-",
        f"{lasted:.1f}",
    ]
    return " | ".join(cells)


def _print_each(mine: Mapping[Line, Sequence[Mapping[str, Any]]]) -> None:
    _table(
        "One by one",
        *("change", "budget", "scenario", "metric", "effect", "95 % interval", "units", "by", "min", "verdict", "also"),
    )
    for line, found in mine.items():
        for one in found:
            if "failed" in one or not one["interval"]:
                print(f"| {line.name} | {line.minutes:g}m | {line.scenario} |  |  |  |  |  |  | {_why(one)} |  |")
                continue
            low, high = (100 * end for end in one["interval"])
            also = ", ".join(f"{100 * estimate:+.1f} % {name}" for name, estimate, _, _ in one["notable"])
            print(
                f"| {line.name} | {line.minutes:g}m | {line.scenario} | {one['metric']} | "
                f"{100 * one['estimate']:+.1f} % | {low:+.1f} .. {high:+.1f} % | {one['units']} | {one['method']} | "
                f"{one['minutes']:.1f} | {one['verdict']} | {also} |"
            )


def _why(entry: Mapping[str, Any]) -> str:
    if "failed" in entry:
        return f"no result: exit {entry['exit']}"
    return f"{entry['verdict']}: {'; '.join(entry['reasons'])}"
