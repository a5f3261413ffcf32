"""All that was wrong with a round: with its load, its load hosts and its brokers."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from perfgate.measure.canary import usable_cores
from perfgate.measure.flaw import of_brokers, of_generator
from perfgate.measure.host_validity import QUOTA_LIMIT, held_back_by_quota, host_flaws
from perfgate.measure.validity import BROKERS_PART, PROCESSORS_FULL, flaws, processors_left, processors_used_up
from perfgate.metrics.health import unhealthy
from perfgate.metrics.samplers import HELD_BACK
from perfgate.model import Accounting, Load, Scenario
from perfgate.model.compared import SATURATED
from perfgate.model.flaw import Flaw
from perfgate.model.load import LoadResult

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Of a container's control group (version 2): us of processor time in a period of so many us, or max."""


def round_flaws(
    load: Load,
    result: LoadResult,
    accounting: Accounting,
    brokers: Mapping[str, float],
    *,
    shares_cores: bool,
    idempotent: bool = False,
    promised: bool = False,
    clients: int = 1,
) -> tuple[Flaw, ...]:
    """Return every reason why the round, or some of its metrics, are INVALID; empty when it is valid.

    `brokers`: their metrics in its window; `shares_cores`: they are on this machine. `idempotent`: they drop what a
    producer sends again. `promised`: of :func:`is_promised`. `clients`: so many send and receive.
    """
    busiest, used = brokers.get("broker_cpu_cores.max"), brokers.get("broker_cpu_cores.sum")
    # All processors of the machine, whatever part of them this process may use: brokers may use the others.
    cores = os.cpu_count() or math.inf
    used_up = shares_cores and processors_used_up(result, used, cores)
    of_hosts = host_flaws(load, result, busiest, shares_cores=shares_cores)
    at_ease = _processors_left(result, used if shares_cores else 0.0)
    at_ease = at_ease and not any(flaw.again for flaw in of_hosts)
    room = processors_left(result, used, cores) if shares_cores else None
    held_back = brokers.get(HELD_BACK, 0.0)
    by_quota = of_generator(
        f"{SATURATED}: the CPU quota of the container that this run is in held its clients back in {held_back:.0%} of "
        f"the quota's periods (limit {QUOTA_LIMIT:.0%}): give the job more processors",
        held_back_by_quota(result.window_s, held_back),
        kind=SATURATED,
    )
    found = (
        *((by_quota,) if held_back > QUOTA_LIMIT and not shares_cores else ()),
        *flaws(
            load,
            result,
            accounting,
            busiest,
            used_up=used_up,
            room=room,
            at_ease=at_ease,
            idempotent=idempotent,
            promised=promised,
            clients=clients,
        ),
        *of_hosts,
    )
    if room is not None and used is not None and used >= BROKERS_PART * cores:
        found = tuple(replace(flaw, whose="brokers") if flaw.again else flaw for flaw in found)
    reason = unhealthy(brokers)
    return (*found, of_brokers(reason, late=True, kind="unhealthy")) if reason else found


def clients_of(row: Scenario) -> int:
    """Return how many clients send and receive."""
    consumers = row.consumers
    reading = consumers.groups * consumers.processes * consumers.threads if consumers else 0
    return max(1, row.producers * row.threads + reading)


def is_promised(row: Scenario) -> bool:
    """Return whether what brokers acknowledge is in all replicas in sync, so that one that ends loses nothing of it."""
    return dict(row.producer).get("acks", "").lower() in ("all", "-1")


def is_idempotent(row: Scenario) -> bool:
    """Return whether brokers drop what its producers send again; so they do of transactions."""
    # In the words that clients take, as in perfgate.judge.faults.rules.durability_of.
    return bool(row.transaction_ms) or dict(row.producer).get("enable.idempotence", "").lower() in ("true", "t", "1")


def _processors_left(result: LoadResult, brokers_cores: float | None) -> bool:
    """Return whether this machine had processors left in the window; load hosts elsewhere are looked at one by one."""
    machines = [host.machine for host in result.hosts]
    if machines and all(machine is not None and not machine.with_run for machine in machines):
        return True
    return brokers_cores is not None and brokers_cores + result.cpu_cores < PROCESSORS_FULL * processors_allowed()


def processors_allowed() -> float:
    """Return how many processors this process may use, by its affinity and the quota of its container."""
    try:
        quota, period = QUOTA.read_text().split()
        allowed = float(quota) / float(period)
    except (OSError, ValueError):
        allowed = math.inf
    return min(usable_cores(), allowed)
