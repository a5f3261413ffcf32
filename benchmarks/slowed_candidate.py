"""A plugin for a gate run against a reference (`-p benchmarks.slowed_candidate`): only the candidate is slowed.

While it has its turn, and as SLOWED says: `half-cpu`, broker 1 is stopped for half of the time; `link`, the link to the
other zone adds FARTHER_MS to a round trip, instead of LINK_MS (benchmarks/longer_link.py), as in the reference's turns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from benchmarks.half_speed import one_broker_at_half_speed
from perfgate.host.toxiproxy import ToxiproxyApi
from perfgate.model.load import Late, LoadResult, LoadSpec, Observer, Pace
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver

CANDIDATE = "A"
"""Side B is what is changed, which is the reference."""
_take_turns = LibrdkafkaDriver.take_turns
_links: list[tuple[ToxiproxyApi, str]] = []


def farther(slowed: bool) -> None:
    """Set the delay of every broker's proxy."""
    for api, name in _links:
        api.set_added_rtt(name, int(os.environ["FARTHER_MS" if slowed else "LINK_MS"]))


@contextmanager
def longer_link() -> Iterator[Callable[[bool], None]]:
    """Give what makes the link longer; it is as before at the end."""
    try:
        yield farther
    finally:
        farther(False)


@contextmanager
def half_cpu() -> Iterator[Callable[[bool], None]]:
    """Give what slows broker 1; it runs on at the end."""
    with one_broker_at_half_speed(os.getpid()) as slowed:
        yield lambda slow: slowed.set() if slow else slowed.clear()


WAYS = {"link": longer_link, "half-cpu": half_cpu}


def take_turns(
    driver: LibrdkafkaDriver, specs: Mapping[str, LoadSpec], order: str, at: Pace, observer: Observer
) -> tuple[dict[str, LoadResult], Mapping[str, Late]]:
    """Run two loads in turns, the candidate's slowed from the end of the turn before to that of its own."""
    turns = order.replace(" ", "")
    edges = 0
    with WAYS[os.environ["SLOWED"]]() as slow:
        slow(turns[0] == CANDIDATE)

        def edge(at: float) -> None:
            nonlocal edges
            observer.edge(at)
            edges += 1
            if edges % 2 == 0 and edges // 2 < len(turns):
                slow(turns[edges // 2] == CANDIDATE)

        return _take_turns(driver, specs, order, at, replace(observer, edge=edge))


if os.environ["SLOWED"] == "link":
    import benchmarks.longer_link  # noqa: F401  (wraps what sets the delay)

    _add_proxy = ToxiproxyApi.add_proxy

    def _noted(api: ToxiproxyApi, name: str, *, listen: str, upstream: str, added_rtt_ms: int) -> None:
        _add_proxy(api, name, listen=listen, upstream=upstream, added_rtt_ms=added_rtt_ms)
        _links.append((api, name))

    ToxiproxyApi.add_proxy = _noted  # type: ignore[method-assign, assignment]
LibrdkafkaDriver.take_turns = take_turns  # type: ignore[method-assign, assignment]
