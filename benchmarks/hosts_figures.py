"""Figures from what benchmarks/hosts.py measured: ratios, lines over the number of hosts, hosts for a rate. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfgate.judge.statistics import median_interval, spread

BUSY = 0.7
"""Of a host's cores and of its link so much is used: over that, records wait for the host, and count as slow."""
OVERHEAD_BYTES = 70
"""What a record of 1 KiB takes on the wire besides itself, at batches of 16 KiB: its own and its share of the batch's,
the request's and TCP's headers; rounded up."""
LEADING = ("control_cores", "control_mib", "ready_s", "collect_s", "spread_ms")
"""The figures of leading hosts that are extrapolated."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """One round. `run_cores`: of the process of the run, with its scheduler; `agent_cores`: of the host's worker."""

    records_per_s: float
    generator_us_per_record: float
    generator_cores: float
    run_cores: float
    agent_cores: float
    p99_ms: float


@dataclass(frozen=True, kw_only=True)
class Started:
    """How the hosts of one round began: the first to the last, and the last after the agreed moment."""

    hosts: int
    spread_ms: float
    latest_ms: float
    clock_bound_ms: float
    schedule_delay_p99_ms: float


def ratios(points: Mapping[str, Sequence[Costs]], base: str, other: str) -> dict[str, Any]:
    """Return the medians of both sides, and the paired ratios of `other` to `base` with their intervals (95 %).

    `run_cores`: what the process of the run uses more with `other`; `agent_cores`: what the load host uses besides its
    generators, which is `agent_share` of what those use.
    """
    pairs = list(zip(points[base], points[other], strict=True))
    found: dict[str, Any] = {}
    for key in ("records_per_s", "generator_us_per_record", "p99_ms"):
        paired = [getattr(theirs, key) / getattr(ours, key) for ours, theirs in pairs]
        found[key] = {
            **{name: statistics.median(getattr(point, key) for point in own) for name, own in points.items()},
            "spread": spread([getattr(point, key) for point in points[base]]),
            "ratio": statistics.median(paired),
            "interval": median_interval(paired),
        }
    found["run_cores"] = statistics.median(theirs.run_cores - ours.run_cores for ours, theirs in pairs)
    found["agent_cores"] = statistics.median(theirs.agent_cores for _, theirs in pairs)
    found["agent_share"] = found["agent_cores"] / statistics.median(theirs.generator_cores for _, theirs in pairs)
    return found


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return (fixed, for each host) of the least squares line through (hosts, figure)."""
    fitted = statistics.linear_regression(*zip(*points, strict=True))
    return fitted.intercept, fitted.slope


def led(idle: Sequence[Mapping[str, Any]], hosts: int) -> dict[str, float]:
    """Return what leading so many hosts takes, by the lines through what was measured."""
    found = {}
    for key in LEADING:
        fixed, each = line([(one["hosts"], one[key]) for one in idle])
        found[key] = fixed + each * hosts
    return found


def hosts_needed(
    rate: float, record_bytes: int, us_per_record: float, *, cores: float, link_gbit_per_s: float
) -> tuple[int, str]:
    """Return how many hosts send `rate` records/s, and what bounds each: "cores" or "link".

    `us_per_record`: CPU of the generators for a record (measured on such a core); nothing is compressed.
    """
    by_cores = BUSY * cores * 1e6 / us_per_record
    by_link = BUSY * link_gbit_per_s * 1e9 / 8 / (record_bytes + OVERHEAD_BYTES)
    return max(1, math.ceil(rate / min(by_cores, by_link))), "cores" if by_cores <= by_link else "link"


def tables(document: Mapping[str, Any]) -> str:
    """Return the lines for the terminal of all parts that were measured."""
    lines = []
    for name, one in document.get("cost", {}).items():
        lines.append(f"{name}: one Dask agent beside local pipes")
        for key in ("records_per_s", "generator_us_per_record", "p99_ms"):
            low, high = one[key]["interval"]
            lines.append(
                f"  {key:<24} {one[key]['ratio']:.3f} x ({low:.3f} .. {high:.3f}), spread {one[key]['spread']:.1%}"
            )
        lines.append(
            f"  {'besides the generators':<24} {one['agent_cores']:.4f} cores on the load host "
            f"({one['agent_share']:.1%} of theirs), {one['run_cores']:.4f} more for the run"
        )
    by_hosts: dict[int, list[Mapping[str, float]]] = {}
    for began in document.get("spread", []):
        by_hosts.setdefault(began["hosts"], []).append(began)
    for hosts, rounds in by_hosts.items():
        middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        worst = max(one["spread_ms"] for one in rounds)
        lines.append(
            f"{hosts} hosts: began within {middle['spread_ms']:.2f} ms (worst {worst:.2f}), clocks known to "
            f"{middle['clock_bound_ms']:.2f} ms, schedule delay p99 {middle['schedule_delay_p99_ms']:.2f} ms"
        )
    leading = [*document.get("idle", [])]
    if leading:
        leading.append({"hosts": 100, **led(leading, 100)})
    for one in leading:
        figures = ", ".join(f"{key} {one[key]:.2f}" for key in LEADING)
        lines.append(f"{one['hosts']} hosts that send nothing: {figures}{' (computed)' if 'rounds' not in one else ''}")
    return "\n".join(lines)
