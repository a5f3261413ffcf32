"""Bursts of turns whose ends a test states."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from perfgate.measure.assembly import Finished
from perfgate.model import Round
from perfgate.model.load import Pace
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver

RATE = 12_000.0
"""Records/s that the benches of a burst reach."""


class Bursts:
    """In the place of :func:`perfgate.measure.sides.burst`: each burst ends as `end` returns or raises."""

    def __init__(self) -> None:
        self.end: Callable[[], Mapping[str, Finished]] = dict
        self.paces: list[Pace] = []
        """Of each burst, in order."""
        bench: Any = SimpleNamespace(rate_of=lambda _: RATE, engine=LibrdkafkaDriver())
        self.benches: dict[str, Any] = dict.fromkeys("AB", bench)

    def __call__(self, _benches: object, _sides: object, _order: str, at: Pace, *_: object) -> Mapping[str, Finished]:
        self.paces.append(at)
        return self.end()


def both(found: Round, *, repeatable: bool = False) -> dict[str, Finished]:
    """Return this round as that of both sides."""
    return {side: Finished(round=found, repeatable=repeatable) for side in "AB"}
