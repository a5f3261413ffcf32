"""Putting back what runs that have ended left on real brokers, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Generic, TypeVar

from perfgate.host.journal import claimed
from perfgate.systems.attached.manifest import Leftover, read_leftover
from perfgate.systems.attached.target_file import Described

Admin = TypeVar("Admin")
"""A system's client for requests about its cluster."""


class Cleaner(ABC, Generic[Admin]):
    """Undoes the noted changes of ended runs, by the file's commands; holds each run's notes meanwhile."""

    def __init__(self, described: Described, note: Callable[[str], None]) -> None:
        self._described, self._note = described, note

    @abstractmethod
    def _answers(self, address: str, cluster_id: str) -> bool:
        """Whether a broker of this cluster answers at an address (host:port)."""

    @abstractmethod
    def _clean(self, admin: Admin, leftover: Leftover) -> list[str]:
        """Put settings back, the newest change first, and delete the run's topics; return what is left."""

    def bring_brokers_back(self, leftover: Leftover) -> list[str]:
        """Run the commands for brokers that the run took away, without a connection; return what a person has to do."""
        with ExitStack() as claims:
            return [text for held in _claimed(claims, [leftover]) for text in self._bring_back(held)]

    def put_back(self, admin: Admin, leftovers: Sequence[Leftover]) -> list[str]:
        """Try every step of every run; return those that failed, as instructions for a person.

        Brokers first: settings and topics of brokers that are not all there are left alone. Of the rest the newest run
        first: of a setting that two runs changed, it noted what the other one had set.
        """
        with ExitStack() as claims:
            held = _claimed(claims, leftovers)
            left = [text for leftover in held for text in self._bring_back(leftover)]
            if left:
                return [*left, "nothing else was done to these brokers while one may be away"]
            for leftover in reversed(held):  # their names, which begin with their starts, are in order
                failed = self._clean(admin, leftover)
                left += [f"run {leftover.run_id}: {text}; {_by_hand(leftover)}" for text in failed]
                if not failed:
                    leftover.notes.remove()
            return left

    def _bring_back(self, leftover: Leftover) -> list[str]:
        left, seen = [], partial(self._answers, cluster_id=leftover.cluster_id)
        for broker, (address, back, taken) in list(leftover.away.items()):
            self._note(
                f"broker {broker} at {address} is away since run {leftover.run_id}, which was killed: running [faults] "
                f"{back}, then watching whether it stays"
            )
            if words := self._described.faults.bring_back(back, broker, address, run=True, ended=taken, seen=seen):
                left.append(f"{words}; {_by_hand(leftover)}")
                continue
            leftover.came_back(broker)
            self._note(f"ran [faults] {back} for broker {broker}, away since run {leftover.run_id}, which was killed")
        return left


def _claimed(claims: ExitStack, leftovers: Sequence[Leftover]) -> list[Leftover]:
    """The leftovers that no other process undoes, as noted now: no other will while the claims last."""
    held = (read_leftover(claims.enter_context(claimed(leftover.path))) for leftover in leftovers)
    return [leftover for leftover in held if leftover is not None]


def may_live(leftover: Leftover) -> str:
    return f"not put back, because it may still run there: {leftover.text}"


def _by_hand(leftover: Leftover) -> str:
    """Instruction for a person about a change that cannot be put back, and need not be."""
    return f"once it has been seen to by hand, take its lines out of {leftover.path}"
