"""Blame for the failure of a comparison's brokers: the side that it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from perfgate.measure.assembly import break_off_by
from perfgate.measure.parts import Compared
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.target import Cluster


@contextmanager
def unhealthy_ends(rows: Sequence[Compared], blamed: Callable[[], str], *, dedicated: bool) -> Iterator[None]:
    """Let a target that is no longer healthy end the scenarios' measurement, and be the reason why.

    Where only one side is to be `blamed`, unless the failure tells whose it is, and the brokers are `dedicated`, their
    failure is that side's.
    """
    try:
        yield
    except TargetError as error:
        sides = (error.side if isinstance(error, BrokersFailedError) else "") or blamed()
        break_off_by(error, [row.undecided(sides) for row in rows], dedicated=dedicated and len(sides) == 1)


def failing(clusters: Mapping[str, Cluster], order: str) -> str:
    """Return the sides whose brokers have failed; of clusters that start in this order, the one that did not."""
    if len(clusters) < len(order):
        return order[len(clusters)]
    found = ""
    for side, cluster in clusters.items():
        try:
            cluster.check()
        except TargetError:
            found += side
    return found or order
