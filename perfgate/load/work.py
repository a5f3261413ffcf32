"""Work of a consumer: how long it takes over what it is given, constant or lognormal, by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

POLLS_WITHIN_S = 1.0
"""One that pauses does so for work that lasts longer, and goes on polling meanwhile."""


class Work:
    """The work of one consumer, of a spec's "work": `ms` on average, `sigma` of its logarithm, per `record` or batch.

    Without sigma it is constant.
    """

    def __init__(self, spec: Mapping[str, Any], number: int) -> None:
        self._mean_s, self._sigma = spec["ms"] / 1e3, spec["sigma"]
        self._by_record: bool = spec["per"] == "record"
        self.pauses: bool = spec["pauses"]
        self._random = np.random.default_rng([spec["seed"], number])

    def takes_s(self, records: int) -> float:
        """Return how long these records take, in s; 0 for none."""
        pieces = records if self._by_record else min(1, records)
        if not self._sigma:
            return float(pieces * self._mean_s)
        return float(self._random.lognormal(math.log(self._mean_s) - self._sigma**2 / 2, self._sigma, pieces).sum())
