"""Changing the brokers' settings between the two sides of a comparison, on the same brokers while they run."""

from __future__ import annotations

import itertools
from dataclasses import replace

from perfgate.experiment.assembly import Finished
from perfgate.load.turns import SIDES
from perfgate.model import Change, Settings
from perfgate.model.load import Observer
from perfgate.model.target import Cluster, LiveSettings

REHEARSALS = 2
GAP_TIMES = 2.0
"""The gap between two turns is at least so many times the slowest change so far: under load it takes longer."""
OF_CONNECTIONS = ("num.network.threads", "connection", "max.connection", "listener.", "ssl.", "sasl.")
"""What begins so is given to a connection when it is made: each side needs connections of its own after the change."""
OF_SEGMENTS = ("log.index.", "log.preallocate", "log.roll.jitter.")
"""What begins so is given to a segment when it is made (Kafka's LogSegment.open): each side needs topics of its own,
made after the change, and a burst makes both sides' before its first turn."""


def live_values(change: Change, cluster: Cluster) -> Settings | None:
    """Return the settings that the change gives to brokers, if Kafka changes all of them while it runs; None otherwise.

    Which ones it does is asked of the brokers. One that the cluster itself was started with stays as it is: it is not
    the brokers' own to go back to.
    """
    values = change.settings("broker")
    names = [name for name, _ in values]
    if not values or change.restarts_brokers or set(names) & set(dict(cluster.spec.config)):
        return None
    return None if cluster.live_settings().fixed(names) else values


class Switch:
    """Brings the brokers to side A (as they were) or B (with the change), in turn; does nothing until it is rehearsed.

    `sides`: those that the brokers serve now, as they are set.
    """

    def __init__(self, sides: str = SIDES) -> None:
        self.sides = sides
        self._settings: LiveSettings | None = None
        self._values: Settings = ()
        self._last_s = 0.0
        self.slowest_s = 0.0
        """So long the brokers took, at the most, until the last one said that the change takes effect."""

    def rehearse(self, settings: LiveSettings, values: Settings, times: int = REHEARSALS) -> None:
        """Change the settings and back, to see how long that takes.

        Raises ConfigurationError for a value that brokers refuse.
        """
        self._settings, self._values = settings, values
        if not times:
            self.sides = "A"  # as they were: there is nothing to go back from
        for _ in range(times):
            self.slowest_s = 0.0  # the first one also makes the connections
            self.to("B")
            self.to("A")

    def to(self, side: str) -> None:
        """Bring the brokers to this side, unless they are there. Raises TargetError when one does not take it."""
        if self._settings is None or side == self.sides:
            return
        self.sides = side
        took_s = self._settings.change(self._values) if side == "B" else self._settings.restore()
        self._last_s = max(self._last_s, took_s)
        self.slowest_s = max(self.slowest_s, took_s)

    def along(self, order: str, observer: Observer) -> Observer:
        """Bring the brokers to the first turn's side; return the observer, which also changes the settings after each
        turn that another side's follows.
        """
        self.to(order[0])
        self._last_s, edges = 0.0, itertools.count(1)

        def edge() -> None:
            observer.edge()
            turns, opened = divmod(next(edges), 2)
            if not opened and turns < len(order):
                self.to(order[turns])

        return replace(observer, edge=edge)

    def in_time(self, finished: Finished, gap_s: float) -> Finished:
        """Return a burst's round; one in which a change took longer than the gap between turns is to be repeated."""
        if self._last_s <= gap_s:
            return finished
        reason = f"the brokers took {self._last_s:.2f} s to take the change, more than the {gap_s:.2f} s between turns"
        found = replace(finished.round, invalid=(*finished.round.invalid, reason))
        return Finished(round=found, repeatable=finished.repeatable or not finished.round.invalid)
