"""Brokers, disk and bandwidth that a load needs, from what was measured of one cluster. Pure arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfgate.model.errors import ConfigurationError

DAY_S = 86_400
ON_DISK = 1.1
"""Disk beside the records themselves: indexes, and segments not deleted yet (the factor of reference R5, as the disk
formula: records/day x size x replicas x days x compression x 1.1)."""
BELOW_KNEE = 0.9
"""The share of the knee that a cluster is planned for; the search measures it, and the service level is met there."""
CPU_SHARE = 0.7
"""The share of a broker's cores that is planned for: what is left takes replicas that catch up, and bursts."""
MOST_BROKERS, MOST_SIZE = 4.0, 2.0
"""Nothing is said of more brokers than so many times those measured, nor of records so many times larger or smaller:
how a cluster scales that far was not measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a run found of one scenario, on a cluster of `brokers`.

    `knee_records_per_s`: of all brokers together; `cpu_us_per_record`: of all brokers, for one acknowledged record.
    """

    knee_records_per_s: float
    cpu_us_per_record: float
    brokers: int
    record_bytes: int
    replicas: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The load that is planned for: its peak `rate` in records/s, bytes of a record before compression, retention.

    `compression`: bytes on the wire and the disk over those of the records; `reads`: so many groups read everything.
    `bandwidth_mb_per_s`: usable, of one broker, in each direction; `cores` of one broker. Either may be unknown.
    """

    rate: float
    record_bytes: int
    replicas: int
    days: float
    compression: float = 1.0
    reads: int = 1
    bandwidth_mb_per_s: float | None = None
    cores: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """What the load needs. Bytes are decimal; `*_brokers` are what each limit alone asks for, None: not known.

    `brokers` is one more than the largest of them, so that one may be down. `reach`: those needed over those measured.
    """

    disk_bytes: float
    in_bytes_per_s: float
    replication_bytes_per_s: float
    out_bytes_per_s: float
    cpu_cores: float
    rate_brokers: int
    cpu_brokers: int | None
    bandwidth_brokers: int | None
    brokers: int
    reach: float


def capacity(wanted: Wanted, measured: Measured) -> Sheet:
    """Return what the load needs. Raises ConfigurationError where that lies too far from what was measured.

    Work on the brokers is taken to grow with the replicas: a copy costs as much as the first one. It is taken to grow
    with the bytes of a record, as R3 of the catalogue has it, and not to shrink with them.
    """
    size = wanted.record_bytes / measured.record_bytes
    if not 1 / MOST_SIZE <= size <= MOST_SIZE:
        raise ConfigurationError(
            f"records of {wanted.record_bytes:,} bytes are {max(size, 1 / size):.3g} x those measured "
            f"({measured.record_bytes:,} bytes); a sheet reaches {MOST_SIZE:g} x: measure them (--set record.bytes="
            f"{wanted.record_bytes} --family rate-ramp)"
        )
    work = wanted.replicas / measured.replicas * max(1, size)
    on_wire = wanted.rate * wanted.record_bytes * wanted.compression
    replication, out = on_wire * (wanted.replicas - 1), on_wire * wanted.reads
    cores = wanted.rate * measured.cpu_us_per_record * work / 1e6
    per_broker = BELOW_KNEE * measured.knee_records_per_s / measured.brokers
    by_rate = _whole(wanted.rate * work / per_broker)
    by_cpu = _whole(cores / (CPU_SHARE * wanted.cores)) if wanted.cores else None
    by_bandwidth = None
    if wanted.bandwidth_mb_per_s:
        busier = max(on_wire, out) + replication  # what comes in, or what goes out
        by_bandwidth = _whole(busier / (wanted.bandwidth_mb_per_s * 1e6))
    needed = max(by_rate, by_cpu or 0, by_bandwidth or 0, wanted.replicas)
    reach = needed / measured.brokers
    if reach > MOST_BROKERS:
        raise ConfigurationError(
            f"{needed} brokers are {reach:.3g} x the {measured.brokers} that were measured; a sheet reaches "
            f"{MOST_BROKERS:g} x: measure a larger cluster (--set cluster.brokers=...), or real brokers"
        )
    return Sheet(
        disk_bytes=on_wire * DAY_S * wanted.replicas * wanted.days * ON_DISK,
        in_bytes_per_s=on_wire,
        replication_bytes_per_s=replication,
        out_bytes_per_s=out,
        cpu_cores=cores,
        rate_brokers=by_rate,
        cpu_brokers=by_cpu,
        bandwidth_brokers=by_bandwidth,
        brokers=needed + 1,
        reach=reach,
    )


def _whole(brokers: float) -> int:
    return max(1, math.ceil(brokers))
