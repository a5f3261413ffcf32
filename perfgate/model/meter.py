"""How much a run has written so far, and where it has to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

from perfgate.model.errors import LimitReachedError, TargetError


@dataclass
class Meter:
    """Counts the bytes that a run has had acknowledged, replicas counted, and stops it when they are too many."""

    most: float = math.inf
    written: float = 0.0
    """By loads that have ended."""
    stopped: str = ""
    """Why nothing more is done to the brokers."""
    by_limit: bool = False
    """Whether that is a limit of the run's, and not the brokers' state."""
    _under_way: float = 0.0

    def stop(self, reason: str, failed: type[TargetError] = TargetError, *, by_limit: bool = False) -> NoReturn:
        """Raise TargetError, now and whenever another load is to begin; now the kind that `failed` says."""
        self.stopped, self.by_limit = reason, by_limit
        raise (LimitReachedError if by_limit else failed)(reason)

    def stay_stopped(self) -> NoReturn:
        """Raise what stopped the run."""
        raise (LimitReachedError if self.by_limit else TargetError)(self.stopped)

    def begin(self) -> None:
        """Note that another load begins."""
        self.written, self._under_way = self.written + self._under_way, 0.0

    def under_way(self, bytes_: float) -> None:
        """Take in what the load under way has written so far. Raises TargetError once it is too much."""
        self._under_way = max(self._under_way, bytes_)
        if self.written + self._under_way > self.most:
            self.stop(
                f"stopped: the run has written {(self.written + self._under_way) / 1e9:,.1f} GB, replicas counted, and "
                f"[limits] bytes allows {self.most / 1e9:,.1f}",
                by_limit=True,
            )
