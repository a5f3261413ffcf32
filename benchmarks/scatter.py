"""Scatter of a comparison by turns, and what it is made of: ``python -m benchmarks.scatter``.

Bursts of a scenario with itself on one warm cluster, in which nothing differs: short and long ones, with long and short
turns, in random order. Each is appended to benchmarks/results/scatter.jsonl. ``--report`` prints, for each kind, the
scatter of the logarithm of B over A, how much of the sides' scatter is common to both, what the client's CPU per
record would remove, and the seconds that a burst takes: variance times seconds is what a budget buys.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.warm_cluster import BY_NAME, warm_cluster
from perfgate.host.environment import environment_facts
from perfgate.load.schedule import SIDES, pace
from perfgate.measure.bench import Bench
from perfgate.measure.sides import burst
from perfgate.model import Scenario, Tier

TIER = Tier(name="scatter", rounds=2, window_s=6, warmup_max_s=2, broker_warmup_s=90)
RAW = Path(__file__).parent / "results" / "scatter.jsonl"
KINDS = ((1, 1.0), (3, 1.0), (3, 0.5), (6, 0.5))
"""Quads of turns (ABBA or BAAB) in a burst, and the seconds of a turn's window."""
QUADS = ("ABBA", "BAAB")
KEPT = ("records_per_s", "broker_cpu_us_per_record", "client_cpu_us_per_record")


def measured(bench: Bench, row: Scenario, kind: tuple[int, float], index: int, chance: random.Random) -> dict[str, Any]:
    """One burst of this kind: the metrics of each side and how long it took, or why it is not valid."""
    quads, window_s = kind
    first = chance.randrange(2)
    order = "".join(QUADS[(first + n) % 2] for n in range(quads))
    at = pace([row, row], [bench.engine.batching(row)] * 2, bench.rate_of(row))
    at = replace(at, window_s=window_s)
    began = time.monotonic()
    done = burst(
        dict.fromkeys(SIDES, bench), dict.fromkeys(SIDES, row), order, at, index, None, lambda observer: observer
    )
    sides = {side: one.round for side, one in done.items()}
    return {
        "scenario": row.name,
        "quads": quads,
        "window_s": window_s,
        "gap_s": at.gap_s,
        "order": order,
        "took_s": round(time.monotonic() - began, 2),
        "invalid": [reason for one in sides.values() for reason in one.invalid],
        "sides": {side: {name: one.metrics.get(name) for name in KEPT} for side, one in sides.items()},
    }


def report(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print the tables."""
    kinds: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for entry in entries:
        kinds[entry["scenario"], entry["quads"], entry["window_s"]].append(entry)
    print(
        "| scenario | turns | window | bursts (invalid) | took | measured | metric | scatter of B over A | of a side "
        "| common | with the client's CPU | variance x s |"
    )
    print("|" + "---|" * 12)
    for (name, quads, window_s), every in sorted(kinds.items()):
        sound = [one for one in every if not one["invalid"]]
        if len(sound) < 3:
            continue
        took = statistics.fmean(one["took_s"] for one in every)
        client = _logs(sound, "client_cpu_us_per_record")
        for metric in KEPT[:2]:
            logs = _logs(sound, metric)
            ratio, covariate = logs["B"] - logs["A"], client["B"] - client["A"]
            scatter, own = (
                float(np.std(ratio, ddof=1)),
                float(np.sqrt(np.mean([np.var(x, ddof=1) for x in logs.values()]))),
            )
            common = float(np.corrcoef(logs["A"], logs["B"])[0, 1])
            left = scatter * float(np.sqrt(1 - np.corrcoef(ratio, covariate)[0, 1] ** 2))
            print(
                f"| {name} | {4 * quads} | {window_s:g} s | {len(every)} ({len(every) - len(sound)}) | {took:.1f} s "
                f"| {4 * quads * window_s / took:.0%} | {metric} | {scatter:.1%} | {own:.1%} | {common:+.2f} "
                f"| {left:.1%} | {scatter**2 * took:.3f} |"
            )


def _logs(entries: Sequence[Mapping[str, Any]], metric: str) -> dict[str, Any]:
    return {side: np.log([entry["sides"][side][metric] for entry in entries]) for side in SIDES}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenario", default="batch-1k", choices=sorted(BY_NAME))
    parser.add_argument("--bursts", type=int, default=8, help="of each kind (default: 8)")
    parser.add_argument("--report", action="store_true", help="print the tables of what is recorded, measure nothing")
    asked = parser.parse_args()
    if not asked.report:
        row, chance = BY_NAME[asked.scenario], random.Random(time.time_ns())
        with warm_cluster(row, TIER) as warm, RAW.open("a", encoding="utf-8") as raw:
            machine = environment_facts()
            for index in range(asked.bursts):
                for kind in chance.sample(KINDS, len(KINDS)):
                    entry = {"machine": machine, **measured(warm.bench, row, kind, index, chance)}
                    raw.write(json.dumps(entry) + "\n")
                    raw.flush()
    report([json.loads(line) for line in RAW.read_text(encoding="utf-8").splitlines()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
