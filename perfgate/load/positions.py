"""Positions of Pulsar: a single number for a message's place in its partition, like Kafka's offset.

A message id has a ledger, an entry in it, and an index in the entry's batch. Numbers of ledgers grow along a partition,
entries within a ledger, and indexes within an entry. Concatenated in this order they are a number that grows along the
log: 22 bits of ledger, 27 of entry, 14 of index, 63 in all, so that an int64 keeps the order. It decides:

- order: of two records of a partition the smaller position was written earlier;
- written twice: the same sequence number at two positions;
- delivered twice: the same position twice.

Positions have gaps (an entry that is no batch of 16,384 leaves the rest unused), so that they do not show missing
records: sequence numbers do. The producer's receipt and the consumer's message give the same position.

The sizes suffice: a ledger is closed after 50,000 entries, but not within 10 minutes of its start (the brokers'
defaults), and 2**27 entries in that time are 220,000 a second. A batch of more than 2**14 messages is refused as a
setting. Of the ledger's number the 22 lowest bits are kept: clusters that live for long have larger ones. Where a
partition's ledgers pass a multiple of 4,194,304 within a run the order breaks there, once, and the round shows records
out of order that are not; a cluster that opens a ledger each second does so once in 48 days.
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
