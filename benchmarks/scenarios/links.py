"""The scenario of comparisons over a link whose brokers start anew: for A/A pairs of it to count, it is as declared."""

from perfgate.catalogue.bases import PAPER
from perfgate.model import with_changes
from perfgate.model.catalogue import family

FAMILIES = (
    family(
        "short-buffer",
        "a link of 2 ms, and a buffer that drains in a moment after each burst",
        base=with_changes(PAPER, [("link", "cross-zone-2ms")]),
        varies="producer.queue.buffering.max.kbytes",
        smoke={"cross-az-2ms-short": 512},
    ),
)
