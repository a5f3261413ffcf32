"""The cost of a second cluster that lives beside the loaded one and waits: ``python -m benchmarks.idle_cluster``.

Comparisons on pairs of clusters keep both alive. Measured are bursts of batch-1k on one warm cluster, its sides alike,
before another is started and after that one was warmed up too; and what the other's brokers use meanwhile that is not
loaded: CPU over 30 s, memory.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterable, Sequence

import psutil

from benchmarks.warm_cluster import BY_NAME, warm_cluster
from perfgate.load.schedule import SIDES, pace
from perfgate.measure.bench import Bench
from perfgate.measure.parts import next_order
from perfgate.measure.sides import burst
from perfgate.model import MIB, Tier

TIER = Tier(name="idle", rounds=2, window_s=6, warmup_max_s=2, broker_warmup_s=90)
ROW = BY_NAME["batch-1k"]
WATCHED_S = 30.0
CHANCE = random.Random(0)


def rates(bench: Bench, count: int) -> list[float]:
    """Return the records/s of so many bursts whose sides are alike, those of both sides on average.

    Bursts that are not valid are left out, and printed with why.
    """
    at, orders, found = (
        pace([ROW, ROW], [bench.engine.batching(ROW)] * 2, bench.rate_of(ROW)),
        list[str](),
        list[float](),
    )
    while len(orders) < count:
        orders.append(next_order(orders, CHANCE))
        done = burst(
            dict.fromkeys(SIDES, bench),
            dict.fromkeys(SIDES, ROW),
            orders[-1],
            at,
            len(orders),
            None,
            lambda observer: observer,
        )
        made = [one.round for one in done.values()]
        if reasons := [reason for one in made for reason in one.invalid]:
            print(f"burst {len(orders)} is left out: {reasons[0]}")
        else:
            found.append(statistics.fmean(one.metrics["records_per_s"] for one in made))
    return found


def used(pids: Iterable[int]) -> tuple[float, float]:
    """Return the cores that these processes use over 30 s, and their memory (RSS) in MiB at the end."""
    processes = [psutil.Process(pid) for pid in pids]

    def cpu_s() -> float:
        return sum(one.cpu_times().user + one.cpu_times().system for one in processes)

    began, before = time.monotonic(), cpu_s()
    time.sleep(WATCHED_S)
    cores = (cpu_s() - before) / (time.monotonic() - began)
    return cores, sum(one.memory_info().rss for one in processes) / MIB


def _told(what: str, found: Sequence[float]) -> None:
    if len(found) < 2:
        print(f"{what}: {len(found)} valid bursts")
        return
    spread = statistics.stdev(found) / statistics.fmean(found)
    print(f"{what}: {statistics.median(found):,.0f} records/s, {len(found)} bursts, standard deviation {spread:.1%}")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bursts", type=int, default=12, help="of each kind (default: 12)")
    bursts = parser.parse_args().bursts
    with warm_cluster(ROW, TIER) as alone:
        _told("alone", rates(alone.bench, bursts))
        idle = alone.target.beside(ROW.cluster)
        alone.setup.warm_bench(idle, [ROW], f"{alone.setup.run_id}-2")
        alone.bench.warm_up([ROW])
        _told("beside a warm cluster that waits", rates(alone.bench, bursts))
        cores, mib = used(idle.broker_pids().values())
        print(f"the cluster that waits: {cores:.3f} cores, {mib:,.0f} MiB, over {WATCHED_S:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
