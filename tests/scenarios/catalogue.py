"""The catalogue: every family of scenarios, one declaration each. What they owe one another is in relations.toml."""

from perfgate.model import KIB, with_changes
from perfgate.model.catalogue import Family, family
from tests.scenarios.bases import PACED, PAPER
from tests.scenarios.failover import FAILOVER

FAMILIES: tuple[Family, ...] = (
    family(
        "acks",
        "asynchronous (acks=1) against synchronous (acks=-1) replication: more records per second",
        base=with_changes(PAPER, [("topic.replicas", 3)]),
        varies="producer.acks",
        scenarios={"acks-all": -1},
        says={"acks-all": "three replicas, acks=-1"},
    ),
    family(
        "batch-size",
        "how many bytes of records go into one batch: more records per second for less broker CPU",
        base=PAPER,
        varies="producer.batch.size",
        scenarios={"batch-1k": 1 * KIB, "batch-16k": 16 * KIB},
        says={"batch-1k": "1 KiB batches: one record each", "batch-16k": "16 KiB batches"},
    ),
    family(
        "cross-az",
        "the producer sits in another zone than the brokers: fewer records per second",
        base=PAPER,
        varies="link",
        scenarios={"cross-az": "cross-zone"},
        says={"cross-az": "1 KiB batches from another zone"},
    ),
    FAILOVER,
    # The slowest machine tried took 1,100/s of such records as fast as it could: there the brokers are half idle.
    family(
        "latency",
        "what one record waits for at a rate that the brokers take easily",
        base=PACED,
        varies="load.rate",
        scenarios={"paced-500": 500},
        says={"paced-500": "500 records/s, three replicas: how long a record takes"},
    ),
    family(
        "replicas",
        "how many copies of each partition the brokers keep: far fewer records per second",
        base=PAPER,
        varies="topic.replicas",
        scenarios={"replicas-3": 3},
        says={"replicas-3": "three replicas, acks=1"},
    ),
)
SCENARIOS = tuple(scenario for one in FAMILIES for scenario in one.scenarios)
