"""How many records a producer hands over at a time."""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.model import KIB

CHUNK = 256
CHUNKS_PER_PARTITION = 8


def chunk_of(client: Mapping[str, str], record_bytes: int, partitions: int) -> int:
    """Return how many records are handed over at a time, all to one partition.

    Few enough that a small buffer holds records for every partition: with chunks of its own size one partition at a
    time would be served (seen: 40 % of the rate over a slow link with 64 KiB of buffer).
    """
    buffer = int(client["queue.buffering.max.kbytes"]) * KIB // record_bytes
    return max(1, min(CHUNK, buffer // (CHUNKS_PER_PARTITION * partitions)))
