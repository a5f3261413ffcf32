"""Live comparisons of known effects, for their error rates: ``python -m benchmarks.verdict_quality``.

Makes live comparisons on a three-broker cluster of this machine, one after another, and appends every unit
to benchmarks/results/verdict_quality.jsonl.gz at once; started again it goes on where it was stopped. The candidate's
slowdown is real: while it has its turn, the link to another zone adds more milliseconds to every round trip. Its true
size is measured separately, by whole rounds with either delay. benchmarks/verdict_report.py makes tables of it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.warm_cluster import BY_NAME, KeptTarget, quiet_setup, warm_cluster
from perfgate.judge.claims.same import SequentialStopRule, judge_comparison
from perfgate.load.schedule import pace
from perfgate.measure.bench import Bench
from perfgate.measure.comparing import Comparing
from perfgate.measure.parts import MIRRORED, QUADS
from perfgate.measure.sides import burst
from perfgate.model import Change, Scenario, Tier, with_changes
from perfgate.model.load import Late, LoadResult, LoadSpec, Observer, Pace
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver

RAW = Path(__file__).parent / "results" / "verdict_quality.jsonl.gz"
TIER = Tier(name="quality", rounds=2, window_s=6, warmup_max_s=2, broker_warmup_s=45)
# The declared buffer of 32 MiB would take 40 s to drain over these links.
ROW = with_changes(BY_NAME["cross-az"], [("producer.queue.buffering.max.kbytes", 512)])
TRUE_ROUNDS = 5
BUSY_ROWS = tuple(BY_NAME[name] for name in ("batch-1k", "replicas-3", "acks-all"))
SERIES_UNITS = 30


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
    Case(8, 8, 18, 120.0),
    Case(18, 18, 12, 120.0),
    Case(8, 9, 20),
    Case(18, 19, 20),
    Case(9, 8, 4),
    Case(19, 18, 4),
)
DELAYS = sorted({delay for case in CASES for delay in (case.baseline, case.candidate)})


class SlowedDriver(LibrdkafkaDriver):
    """Sets the delay of the link to that of the side whose turn it is."""

    def __init__(self, set_delay: Callable[[int], None], delays: Mapping[str, int]) -> None:
        super().__init__()
        self._set_delay, self._delays = set_delay, delays

    def take_turns(
        self, specs: Mapping[str, LoadSpec], order: str, at: Pace, observer: Observer
    ) -> tuple[dict[str, LoadResult], Mapping[str, Late]]:
        edges = 0
        self._set_delay(self._delays[order[0]])

        def edge(at: float) -> None:
            nonlocal edges
            observer.edge(at)
            edges += 1
            if edges % 2 == 0 and edges // 2 < len(order):
                self._set_delay(self._delays[order[edges // 2]])

        return super().take_turns(specs, order, at, replace(observer, edge=edge))


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
    with warm_cluster(ROW, TIER) as warm:
        bench, cluster = warm.bench, warm.cluster

        def set_delay(added_rtt_ms: int) -> None:
            assert cluster.proxy is not None
            for broker in cluster.broker_pids():
                cluster.proxy.set_added_rtt(f"broker-{broker}", added_rtt_ms)

        _true_sizes(bench, set_delay)
        while time.monotonic() < deadline and (case := _next_case()) is not None:
            _compare(warm.target, set_delay, case)
        for row in BUSY_ROWS:
            _series(bench, row, deadline)


def _true_sizes(bench: Bench, set_delay: Callable[[int], None]) -> None:
    """Measure by whole rounds what rate each delay gives, if that is not there yet."""
    made = Counter(entry["delay"] for entry in recorded() if entry["kind"] == "true")
    for index in range(1, TRUE_ROUNDS + 1):
        for delay in random.sample(DELAYS, len(DELAYS)):
            if made[delay] < index:
                set_delay(delay)
                found = bench.round(ROW, index, None, "true size").round
                note(
                    {
                        "kind": "true",
                        "delay": delay,
                        "invalid": found.invalid,
                        "records_per_s": found.metrics.get("records_per_s"),
                    }
                )


def _series(bench: Bench, row: Scenario, deadline: float) -> None:
    """Record units of a row that uses all of the machine, compared with itself, however clear it is."""
    made = sum(entry["kind"] == "series" and entry["row"] == row.name for entry in recorded())
    if made >= SERIES_UNITS or time.monotonic() > deadline:
        return
    bench.warm_up([row])
    at, order = pace([row, row], [bench.engine.batching(row)] * 2, bench.rate_of(row)), random.choice(QUADS)
    while made < SERIES_UNITS and time.monotonic() < deadline:
        made += 1
        order = order.translate(MIRRORED) if made % 2 == 0 else random.choice(QUADS)
        found = burst({"A": bench, "B": bench}, {"A": row, "B": row}, order, at, made, None, lambda observer: observer)
        note(
            {
                "kind": "series",
                "row": row.name,
                "order": order,
                "started": round(time.time()),
                "invalid": [reason for finished in found.values() for reason in finished.round.invalid],
                **{
                    name: [found[side].round.metrics.get(name) for side in "AB"]
                    for name in ("records_per_s", "broker_cpu_us_per_record")
                },
            }
        )


def _next_case() -> Case | None:
    """Return the case that lacks the largest share of its comparisons, or None when all are there."""
    made = Counter(entry["case"] for entry in recorded() if entry["kind"] == "comparison")
    case = max(CASES, key=lambda c: 1 - made[c.name] / c.live)
    return case if made[case.name] < case.live else None


def _compare(target: KeptTarget, set_delay: Callable[[int], None], case: Case) -> None:
    """Make one live comparison with the product's own code and note it."""
    set_delay(case.baseline)
    slowed = SlowedDriver(set_delay, {"A": case.baseline, "B": case.candidate})
    setup = quiet_setup(target, ROW, replace(TIER, broker_warmup_s=0.0), RAW.parent, slowed)
    comparing = Comparing(change=Change(name=case.name), budget_s=case.budget_s, setup=setup, stop=SequentialStopRule())
    begin = time.time()
    comparison = comparing.compare(ROW)
    outcome = judge_comparison(comparison)
    note(
        {
            "kind": "comparison",
            "case": case.name,
            "started": round(begin),
            "verdict": outcome.effect.value,
            "units": outcome.units,
            "planned": comparison.planned_units,
            "minutes": round(comparison.minutes, 3),
            "orders": comparison.orders,
            "reasons": outcome.reasons,
            **{
                side: [r.metrics.get("records_per_s") for r in m.rounds]
                for side, m in (("baseline", comparison.baseline), ("candidate", comparison.candidate))
            },
        }
    )
    found = f"{outcome.primary.estimate * 100:+.1f} %" if outcome.primary else "-"
    print(
        f"{time.strftime('%T')} {case.name}: {outcome.effect.value} {found}, {outcome.units} of "
        f"{comparison.planned_units} units, {comparison.minutes:.1f} min {outcome.reasons}",
        flush=True,
    )


def main() -> int:
    """Collect until all is there or the time is up."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=120.0, help="stop after so long (default: 120)")
    collect(parser.parse_args().minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
