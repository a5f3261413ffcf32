"""A topic that is in use, as far as a scenario can be like it. Nothing of its records is kept."""

from __future__ import annotations

from dataclasses import dataclass

from perfgate.model.declared import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledRecords:
    """What a sample of records is like. `record_bytes` and those after it are of their values: mean, median and p99.

    `keyed`: how many have a key; `keys`: how many different ones there are among them. `gzip_ratio`: how many times
    smaller gzip makes their values, 16 KiB at a time. `packed`: bytes of records in each byte that the brokers sent:
    more than one where batches are compressed, whoever did that; None where it could not be told.
    """

    records: int
    record_bytes: int
    record_bytes_median: int
    record_bytes_p99: int
    keyed: int
    keys: int
    gzip_ratio: float
    packed: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedTopic:
    """A topic as its brokers describe it, its rate (records/s over `rate_over_s`) and what its records are like.

    `config`: its settings that bear on performance, where they are not Kafka's defaults.
    """

    name: str
    cluster: str
    partitions: int
    replication_factor: int
    config: Settings
    rate: float
    rate_over_s: float
    sample: SampledRecords
