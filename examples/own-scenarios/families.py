"""An example of scenarios of your own: the orders of a shop, 300 bytes each, keyed by customer.

kafka-perf-gate gate --scenarios=examples/own-scenarios --family orders

Its ratios are in relations.toml, what it is held against on brokers of your own in thresholds/.
"""

from perfgate.catalogue.bases import DURABLE
from perfgate.model import with_changes
from perfgate.model.catalogue import family

ORDERS = with_changes(
    DURABLE,
    [("record.bytes", 300), ("record.keys", 10_000), ("record.payload", "text:3"), ("load.rate", 500)],
)

FAMILIES = (
    family(
        "orders",
        "how long an order takes into the log, by how the batches are compressed",
        base=ORDERS,
        varies="producer.compression.type",
        smoke={"orders-plain": "none", "orders-lz4": "lz4"},
        full={"orders-zstd": "zstd"},
    ),
)
