"""Rebalances: members of a consumer group come and go; the cost to readers, by protocol and assignment.

Three members on six partitions, 100 records/s each, paced; nothing is done to the brokers, which all scenarios share.
"""

from dataclasses import replace

from perfgate.catalogue.failover import fault_scenario
from perfgate.model import ClusterSpec, Consumers, FaultScenario, settings
from perfgate.model.catalogue import Family
from perfgate.model.declared import TierName

NAME = "rebalance"
MEMBERS, AWAY_S, HELD_S = 3, 2.0, 12.0
"""An instance of an application that is restarted is away for 2 s here."""
EAGER = {"partition.assignment.strategy": "range"}
# A member that closes is missed when its session has ended: perfgate/faults/costs.py.
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
BY_BROKERS = {"group.protocol": "consumer"}
STATIC = {"group.instance.id": "instance"}
ROLLING = "rolling-application"


def moved(name: str, summary: str, kind: str, config: dict[str, str], *, tier: TierName = "full") -> FaultScenario:
    """A scenario with this fault of members that have these settings."""
    session = {"session.timeout.ms": 6_000} if config == COOPERATIVE else {}
    consumers = Consumers(membership="group", processes=MEMBERS, config=settings({**config, **session}))
    hold_s = AWAY_S if kind == ROLLING else HELD_S
    base = fault_scenario(name, summary, kind, hold_s=hold_s, repeats=2, consumers=consumers)
    factor = settings({"fault": kind, **config})
    return replace(base, families=(NAME,), tier=tier, factor=factor, cluster=ClusterSpec())


SCENARIOS = (
    moved(
        ROLLING,
        "each instance of an application is restarted in turn; the brokers share out (KIP-848)",
        ROLLING,
        BY_BROKERS,
        tier="nightly",
    ),
    moved("rolling-application-eager", "the same; its group stops and shares out anew", ROLLING, EAGER),
    moved(
        "rolling-application-cooperative",
        "the same; partitions that stay where they are are read on",
        ROLLING,
        COOPERATIVE,
    ),
    moved(
        "rolling-application-static",
        "the same of static members: the others learn nothing of a restart",
        ROLLING,
        {**EAGER, **STATIC},
    ),
    moved(
        "rolling-application-static-brokers",
        "the same of static members, to whom the brokers share out",
        ROLLING,
        {**BY_BROKERS, **STATIC},
    ),
    moved("member-leaves", "a member closes for good; the brokers share out (KIP-848)", "member-leave", BY_BROKERS),
    moved("member-leaves-eager", "the same; its group stops and shares out anew", "member-leave", EAGER),
    moved("member-leaves-cooperative", "the same; only its partitions move", "member-leave", COOPERATIVE),
    moved("member-joins", "a fourth member joins; the brokers share out (KIP-848)", "member-join", BY_BROKERS),
    moved("member-joins-eager", "the same; its group stops and shares out anew", "member-join", EAGER),
    moved("member-joins-cooperative", "the same; only what it is given moves", "member-join", COOPERATIVE),
)
REBALANCE = Family(
    name=NAME,
    about="what members of a consumer group that come and go cost its readers: seconds without records, and no record",
    scenarios=SCENARIOS,
    source="KIP-848; KIP-429; KIP-345",
)
