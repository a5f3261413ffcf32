"""How often a comparison's verdict is wrong: ``python -m benchmarks.verdict_quality collect|report``.

`collect` makes live comparisons on a three-broker cluster of this machine, one after another, and appends every unit
to benchmarks/results/verdict_quality.jsonl.gz at once; started again it goes on where it was stopped. The candidate's
slowdown is real: while it has its turn, the link to another zone adds more milliseconds to every round trip. Its true
size is measured separately, by whole rounds with either delay. `report` judges the recorded units by the suite's rules
and by those of others, and prints them as tables.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from fixtures.comparing import Comparing
from fixtures.load.librdkafka import LibrdkafkaDriver
from fixtures.load.protocol import LoadResult, LoadSpec, Observer
from fixtures.load.turns import Pace, pace
from fixtures.model import Change, Scenario, Tier, with_settings
from fixtures.stand import Stand
from fixtures.target.embedded import EmbeddedTarget
from fixtures.verdict.comparisons import judge_comparison
from fixtures.verdict.sequential import judge_units
from tests.scenarios.test_acks import ROWS as ACKS
from tests.scenarios.test_batch_size import ROWS as BATCH_SIZE
from tests.scenarios.test_cross_az import ROWS as CROSS_AZ
from tests.scenarios.test_replicas import ROWS as REPLICAS

RAW = Path(__file__).parent / "results" / "verdict_quality.jsonl.gz"
TIER = Tier(name="quality", rounds=2, window_s=6, warmup_max_s=2, broker_warmup_s=45)
# The declared buffer of 32 MiB would take 40 s to drain over these links.
ROW = replace(CROSS_AZ[0], producer=with_settings(CROSS_AZ[0].producer, {"queue.buffering.max.kbytes": 512}))
TRUE_ROUNDS = 5
BUSY_ROWS = (*BATCH_SIZE[:1], *REPLICAS, *ACKS)
SERIES_UNITS = 60
RESAMPLED = 300
BLOCK = 2
"""Recorded units are drawn in blocks of so many neighbours, so that what lasts longer than a unit stays together."""


@dataclass(frozen=True, slots=True)
class Case:
    """How many milliseconds the link adds to a round trip while either side has its turn."""

    baseline: int
    candidate: int
    live: int
    budget_s: float = 600.0

    @property
    def name(self) -> str:
        return f"{self.baseline}:{self.candidate}"


CASES = (
    Case(8, 8, 18, 120.0), Case(18, 18, 12, 120.0),
    Case(8, 9, 20), Case(18, 19, 20), Case(9, 8, 4), Case(19, 18, 4),
)  # fmt: skip
DELAYS = sorted({delay for case in CASES for delay in (case.baseline, case.candidate)})


class SlowedDriver(LibrdkafkaDriver):
    """Sets the delay of the link to that of the side whose turn it is."""

    def __init__(self, set_delay: Callable[[int], None], delays: Mapping[str, int]) -> None:
        self._set_delay, self._delays = set_delay, delays

    def take_turns(
        self, specs: Mapping[str, LoadSpec], order: str, at: Pace, observer: Observer
    ) -> tuple[dict[str, LoadResult], int]:
        edges = 0
        self._set_delay(self._delays[order[0]])

        def edge() -> None:
            nonlocal edges
            observer.edge()
            edges += 1
            if edges % 2 == 0 and edges // 2 < len(order):
                self._set_delay(self._delays[order[edges // 2]])

        return super().take_turns(specs, order, at, replace(observer, edge=edge))


class Quiet:
    """Says nothing."""

    def __call__(self, text: str, left_s: float | None) -> None:
        pass

    def clear(self) -> None:
        pass


def recorded() -> list[dict[str, Any]]:
    """Return what has been collected."""
    if not RAW.exists():
        return []
    # A stopped collection may leave the last member cut off; what came before it counts.
    entries = []
    with gzip.open(RAW, "rt") as lines:
        try:
            for line in lines:
                entries.append(json.loads(line))
        except (EOFError, ValueError):
            pass
    return entries


def note(entry: Mapping[str, Any]) -> None:
    """Append an entry, as a compressed member of its own."""
    RAW.parent.mkdir(exist_ok=True)
    with gzip.open(RAW, "at") as lines:
        lines.write(json.dumps(entry) + "\n")


def collect(minutes: float) -> None:
    """Make live comparisons until all are there or the time is up."""
    deadline = time.monotonic() + 60 * minutes
    logs = Path(tempfile.mkdtemp(prefix="verdict-quality-"))
    target = EmbeddedTarget(log_folder=logs, cross_zone=True, say=lambda text: print(text, flush=True))
    target.prepare([ROW.cluster])
    try:
        cluster = target.cluster(ROW.cluster)
        stand = Stand(cluster, LibrdkafkaDriver(), tier=TIER, run_id=f"q{int(time.time())}", say=Quiet())
        stand.warm_up([ROW])

        def set_delay(added_rtt_ms: int) -> None:
            assert cluster._proxy is not None
            for broker in cluster.broker_pids():
                cluster._proxy.set_added_rtt(f"broker-{broker}", added_rtt_ms)

        _true_sizes(stand, set_delay)
        while time.monotonic() < deadline and (case := _next_case()) is not None:
            _compare(target, set_delay, case)
        for row in BUSY_ROWS:
            _series(stand, row, deadline)
    finally:
        target.close()


def _true_sizes(stand: Stand, set_delay: Callable[[int], None]) -> None:
    """Measure by whole rounds what rate each delay gives, if that is not there yet."""
    made = Counter(entry["delay"] for entry in recorded() if entry["kind"] == "true")
    for index in range(1, TRUE_ROUNDS + 1):
        for delay in random.sample(DELAYS, len(DELAYS)):
            if made[delay] < index:
                set_delay(delay)
                found = stand.round(ROW, index, None, "true size").round
                note({"kind": "true", "delay": delay, "invalid": found.invalid,
                      "records_per_s": found.metrics.get("records_per_s")})  # fmt: skip


def _series(stand: Stand, row: Scenario, deadline: float) -> None:
    """Record units of a row that uses all of the machine, compared with itself, however clear it is."""
    made = sum(entry["kind"] == "series" and entry["row"] == row.name for entry in recorded())
    if made >= SERIES_UNITS or time.monotonic() > deadline:
        return
    stand.warm_up([row])
    at = pace([row, row], stand.rate_of(row))
    while made < SERIES_UNITS and time.monotonic() < deadline:
        made += 1
        found = stand.turns({"A": row, "B": row}, random.choice(("ABBA", "BAAB")), at, made, None)
        note({
            "kind": "series", "row": row.name, "started": round(time.time()),
            "invalid": [reason for finished in found.values() for reason in finished.round.invalid],
            **{name: [found[side].round.metrics.get(name) for side in "AB"]
               for name in ("records_per_s", "broker_cpu_us_per_record")},
        })  # fmt: skip


def _next_case() -> Case | None:
    """Return the case that lacks the largest share of its comparisons, or None when all are there."""
    made = Counter(entry["case"] for entry in recorded() if entry["kind"] == "comparison")
    case = max(CASES, key=lambda c: 1 - made[c.name] / c.live)
    return case if made[case.name] < case.live else None


def _compare(target: EmbeddedTarget, set_delay: Callable[[int], None], case: Case) -> None:
    """Make one live comparison with the product's own code and note it."""
    set_delay(case.baseline)
    comparing = Comparing(
        change=Change(name=case.name), budget_s=case.budget_s, tier=replace(TIER, broker_warmup_s=0.0),
        driver=SlowedDriver(set_delay, {"A": case.baseline, "B": case.candidate}), target=_Kept(target),
        scenarios=[ROW], run_id=f"q{time.time_ns() // 1_000_000}", say=Quiet(),
    )  # fmt: skip
    begin = time.time()
    comparison = comparing.compare(ROW)
    outcome = judge_comparison(comparison)
    note({
        "kind": "comparison", "case": case.name, "started": round(begin), "verdict": outcome.effect.value,
        "units": outcome.units, "planned": comparison.planned_units, "minutes": round(comparison.minutes, 3),
        "orders": comparison.orders, "reasons": outcome.reasons,
        **{side: [r.metrics.get("records_per_s") for r in m.rounds]
           for side, m in (("baseline", comparison.baseline), ("candidate", comparison.candidate))},
    })  # fmt: skip
    found = f"{outcome.primary.estimate * 100:+.1f} %" if outcome.primary else "-"
    print(f"{time.strftime('%T')} {case.name}: {outcome.effect.value} {found}, {outcome.units} of "
          f"{comparison.planned_units} units, {comparison.minutes:.1f} min {outcome.reasons}", flush=True)  # fmt: skip


class _Kept:
    """A target whose cluster stays for the next comparison."""

    kind = "embedded"

    def __init__(self, target: EmbeddedTarget) -> None:
        self._target = target
        self.prepare = target.prepare
        self.cluster = target.cluster

    def close(self) -> None:
        """Keep the cluster."""


def unit_logs_of(entry: Mapping[str, Any]) -> list[float]:
    """Return the logarithm of candidate over baseline of each unit of a comparison."""
    return [math.log(b / a) for a, b in zip(entry["baseline"], entry["candidate"], strict=True)]


def series_logs(entries: Sequence[Mapping[str, Any]], row: str, metric: str) -> list[float]:
    """Return the same of a recorded series."""
    return [
        math.log(e[metric][1] / e[metric][0])
        for e in entries
        if e["kind"] == "series" and e["row"] == row and not e["invalid"]
    ]


def resampled(pools: Sequence[Sequence[float]], planned: int, shift: float, seed: int) -> Counter[int | None]:
    """Return the verdicts of RESAMPLED comparisons drawn from recorded units, each moved by `shift`.

    Blocks of neighbours are drawn with replacement from one pool at a time; a block never crosses from pool to pool.
    """
    rng = np.random.default_rng(seed)
    blocks = [pool[i : i + BLOCK] for pool in pools for i in range(len(pool) - BLOCK + 1)]
    found: Counter[int | None] = Counter()
    for _ in range(RESAMPLED):
        drawn = rng.integers(len(blocks), size=-(-planned // BLOCK))
        logs = [value + shift for index in drawn for value in blocks[index]][:planned]
        found[judge_units(logs, planned, final=True)[0]] += 1
    return found


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


def report() -> None:
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
            print(f"| {case.name} ms | {statistics.median(a):,.0f} ({spreads[0]:.1f} %), {statistics.median(b):,.0f} "
                  f"({spreads[1]:.1f} %) | {effect * 100:+.1f} % |")  # fmt: skip
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
            print(f"| {case.name} ms | {len(mine)} | {counts['SLOWER']} | {counts['FASTER']} | {counts['SAME']} | "
                  f"{counts['INCONCLUSIVE'] + counts['INVALID']} | {min(means):+.1f} .. {max(means):+.1f} % | "
                  f"{min(minutes):.1f} .. {max(minutes):.1f} |")  # fmt: skip
    print(f"\n### Resampled from the recorded units ({RESAMPLED} comparisons each, blocks of {BLOCK}, 10 min)\n")
    print("| units | effect | SLOWER | FASTER | SAME | not decided | |\n|---|---|---|---|---|---|---|")
    for number, case in enumerate(CASES):
        pools = [unit_logs_of(e) for e in live if e["case"] == case.name and not e["reasons"]]
        if sum(map(len, pools)) > 20:
            planned = round(statistics.median(e["planned"] for e in live if e["case"] == case.name))
            _print_resampled(f"cross-az {case.name} ms", "as measured", resampled(pools, planned, 0.0, number), "")
    for number, row in enumerate(BUSY_ROWS):
        logs = series_logs(entries, row.name, "records_per_s")
        if len(logs) > 20:
            starts = [e["started"] for e in entries if e["kind"] == "series" and e["row"] == row.name]
            planned = int(600 / statistics.median(np.diff(starts)))
            spread = statistics.stdev(logs)
            centred = [value - statistics.mean(logs) for value in logs]
            for effect in (0.0, -0.05, -0.10, 0.10):
                found = resampled([centred], planned, math.log1p(effect), number)
                words = f"moved by {effect * 100:+.0f} %" if effect else "nothing"
                _print_resampled(
                    f"{row.name}, {len(logs)} units", words, found, f"spread of a unit {spread * 100:.1f} %"
                )
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
            print(f"| {row.name}, moved by {effect * 100:+.0f} %, 9 units | 100 drawn | "
                  f"{' | '.join(str(said[way]) for way in ways)} |")  # fmt: skip


def _print_resampled(units: str, effect: str, found: Counter[int | None], note_text: str) -> None:
    false = found[-1] + found[1]
    bound = (
        f"false alarms {false}, upper bound {upper_bound(false, RESAMPLED) * 100:.1f} %" if effect == "nothing" else ""
    )
    print(f"| {units} | {effect} | {found[-1]} | {found[1]} | {found[0]} | {found[None]} | "
          f"{'; '.join(filter(None, (note_text, bound)))} |")  # fmt: skip


def main() -> int:
    """Collect or report, as asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("do", choices=("collect", "report"))
    parser.add_argument("--minutes", type=float, default=120.0, help="bound of collect (default: 120)")
    arguments = parser.parse_args()
    if arguments.do == "collect":
        collect(arguments.minutes)
    else:
        report()
    return 0


if __name__ == "__main__":
    sys.exit(main())
