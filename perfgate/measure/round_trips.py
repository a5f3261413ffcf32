"""Round trips over the links of scenarios, and whether an emulated link is the one that was declared."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.model import SAME_ZONE, Link, Scenario
from perfgate.model.errors import TargetError
from perfgate.model.load import Driver, LoadError
from perfgate.model.target import Cluster

LINK_SHARE = 0.5
"""An emulated link that adds less than this share of what was asked for is not the link that was declared."""


def round_trips(cluster: Cluster, driver: Driver, scenarios: Sequence[Scenario]) -> dict[str, float]:
    """Return the round trip of one request by link, in ms: from where the driver's clients on this link run.

    Raises TargetError when a link is not what it should be.
    """
    links = list(dict.fromkeys([SAME_ZONE, *(scenario.link for scenario in scenarios)]))
    rtt: dict[str, float] = {link.name: _rtt_ms(cluster, driver, link) for link in links}
    for link in links:
        added = rtt[link.name] - rtt[SAME_ZONE.name]
        if cluster.own and added < LINK_SHARE * link.added_rtt_ms:
            raise TargetError(
                f"the {link.name} link should add {link.added_rtt_ms} ms to the round trip of "
                f"{rtt[SAME_ZONE.name]:.2f} ms, but adds {added:.2f} ms"
            )
    return rtt


def _rtt_ms(cluster: Cluster, driver: Driver, link: Link) -> float:
    if cluster.own:  # its brokers are on this machine, and so are all clients
        return cluster.rtt_ms(link)
    try:
        there = driver.rtt_ms(link, cluster.bootstrap(link), cluster.client_settings())
    except LoadError as error:
        raise TargetError(str(error)) from error
    return cluster.rtt_ms(link) if there is None else there
