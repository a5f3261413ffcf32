"""State of a Pulsar topic over time: each partition's broker and bookies, and the nodes that are alive."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Self

from perfgate.model.errors import TargetError
from perfgate.model.target import State
from perfgate.systems.pulsar.client.admin import Admin, TopicName
from perfgate.systems.pulsar.client.topics import owner_of
from perfgate.systems.watching import AskingWatch

ASK_EVERY_S = 0.2
"""A look-up for each partition and a request for the brokers: at 6 partitions 35 requests a second."""
ANSWER_WITHIN_S = 1.0
"""A broker that stands still answers nothing; the next request goes to another broker."""
ENSEMBLES_EVERY_S = 1.0
"""Statistics with a ledger's metadata cost a broker more than a look-up, and ensembles change with a ledger only."""
AT_A_TIME = 4


class OwnerWatch(AskingWatch):
    """Asks the brokers' web services.

    The leader of a partition is the broker that serves it, by a look-up as clients do. A look-up also assigns a broker
    to a partition that has none; each client of the load does the same. Its replicas are the bookies of its newest
    ledger's newest ensemble; in sync are those that are alive. Brokers that take part are those with a session at the
    metadata store, and the nodes of other roles that are alive.
    """

    def __init__(
        self,
        admin: Admin,
        topic: str,
        *,
        brokers: Mapping[str, int],
        bookies: Mapping[str, int],
        there: Callable[[], Collection[int]],
        every_s: float = ASK_EVERY_S,
        ensembles_every_s: float = ENSEMBLES_EVERY_S,
    ) -> None:
        """`brokers`, `bookies`: ids by host:port; `there`: ids of other nodes that answer now; `admin`: waits for
        ANSWER_WITHIN_S; `every_s`, `ensembles_every_s`: pauses between two questions.
        """
        super().__init__(topic, every_s=every_s)
        self._admin, self._there = admin, there
        self._brokers, self._bookies = brokers, bookies
        self._partitions: list[TopicName] = []
        self._ensembles: dict[TopicName, tuple[int, ...]] = {}
        self._ensembles_every_s, self._ensembles_at = ensembles_every_s, -math.inf
        self._pool = ThreadPoolExecutor(AT_A_TIME)

    def __enter__(self) -> Self:
        name = TopicName.of(self.topic)
        self._partitions = [name.partition(number) for number in range(self._admin.partitions(name))]
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._pool.shutdown()

    def _asked(self) -> State | None:
        others = self._pool.submit(self._there)
        try:
            active = self._admin.brokers()
        except TargetError:
            return None
        leaders = tuple(self._pool.map(self._owner, self._partitions))
        if time.monotonic() - self._ensembles_at >= self._ensembles_every_s:
            for partition, bookies in zip(
                self._partitions, self._pool.map(self._ensemble, self._partitions), strict=True
            ):
                if bookies:
                    self._ensembles[partition] = bookies
            self._ensembles_at = time.monotonic()
        there = {*(self._brokers[at] for at in active if at in self._brokers), *others.result()}
        replicas = tuple(self._ensembles.get(partition, ()) for partition in self._partitions)
        return State(
            at=time.monotonic(),
            leaders=leaders,
            in_sync=tuple(tuple(bookie for bookie in ensemble if bookie in there) for ensemble in replicas),
            replicas=replicas,
            brokers=tuple(sorted(there)),
        )

    def _owner(self, partition: TopicName) -> int:
        with suppress(TargetError):
            return owner_of(self._admin, partition, self._brokers)
        return -1

    def _ensemble(self, partition: TopicName) -> tuple[int, ...]:
        with suppress(TargetError):
            if ledgers := self._admin.ledgers(partition):
                return tuple(sorted(self._bookies.get(bookie, -1) for bookie in ledgers[-1].bookies))
        return ()
