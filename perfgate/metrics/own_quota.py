"""The CPU quota that the run's own clients are under, as in a container of CI: how often it held them back."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.host.machine_use import periods_of_groups

HELD_BACK = "client_held_back_share"


class OwnQuota:
    """Notes the quota's periods at each edge of windows; window i lies between the edges 2 i and 2 i + 1."""

    def __init__(self) -> None:
        self._edges: list[Sequence[tuple[int, int]]] = []

    def edge(self) -> None:
        """Note that a window opens or closes."""
        self._edges.append(periods_of_groups())

    def metrics(self, windows: Sequence[int]) -> dict[str, float]:
        """Return the share of the periods in these windows that held the clients back; nothing without a quota.

        Of several quotas, one above another, that of the one that did so most.
        """
        pairs = [(self._edges[2 * window], self._edges[2 * window + 1]) for window in windows]
        shares = []
        for group in zip(*(zip(before, after, strict=True) for before, after in pairs), strict=True):
            every = sum(after[0] - before[0] for before, after in group)
            held = sum(after[1] - before[1] for before, after in group)
            shares += [held / every] if every else []
        return {HELD_BACK: max(shares)} if shares else {}
