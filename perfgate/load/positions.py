"""Positions of Pulsar: a single number for a message's place in its partition, like Kafka's offset.

A message id has a ledger, an entry in it, and an index in the entry's batch; each grows along the partition. Together,
22 bits of ledger, 27 of entry, 14 of index, they are a number that grows along the log, for an int64. Of two records
the smaller position was written earlier; a sequence number at two positions was written twice; a position that comes
twice was delivered twice. Positions have gaps: missing records are shown by sequence numbers.

The sizes suffice: a ledger is closed after 50,000 entries, but not within 10 minutes of its start (the brokers'
defaults), and 2**27 entries in that time are 220,000 a second. A batch of more than 2**14 messages is refused as a
setting. Of the ledger's number the 22 lowest bits are kept. Where a partition's ledgers pass a multiple of 4,194,304
the round shows records out of order that are not: once in 48 days on a cluster that opens a ledger each second.
"""

from __future__ import annotations

LEDGER_BITS, ENTRY_BITS, INDEX_BITS = 22, 27, 14
MOST_MESSAGES = 1 << INDEX_BITS
"""Largest number of messages in a batch."""
NOWHERE = -1


def position_of(ledger: int, entry: int, index: int) -> int:
    """The position; NOWHERE when the entry or the index is too large. `index` is -1 outside of batches."""
    index = max(0, index)
    if ledger < 0 or entry < 0 or entry >> ENTRY_BITS or index >> INDEX_BITS:
        return NOWHERE
    return (ledger & ((1 << LEDGER_BITS) - 1)) << (ENTRY_BITS + INDEX_BITS) | entry << INDEX_BITS | index


def parts_of(position: int) -> tuple[int, int, int]:
    """Ledger (its 22 lowest bits), entry and index."""
    return (
        position >> (ENTRY_BITS + INDEX_BITS),
        position >> INDEX_BITS & ((1 << ENTRY_BITS) - 1),
        position & (MOST_MESSAGES - 1),
    )


def in_words(position: int) -> str:
    """A position as Pulsar's tools write it: ledger:entry:index."""
    return ":".join(map(str, parts_of(position))) if position >= 0 else "nowhere"
