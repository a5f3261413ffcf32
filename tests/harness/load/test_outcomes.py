"""Times of records that are under way: none is overwritten before its outcome is heard."""

from unittest.mock import Mock

import numpy as np
import pytest

from perfgate.load.window import Window
from perfgate.systems.kafka.load.outcomes import Outcomes

UNDER_WAY = 1_000


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_a_partition_that_stands_still_keeps_its_times(partitions: int) -> None:
    """All that may be under way waits in one of three partitions: the ring came round, and its p99 was too low."""
    spec = {"partitions": partitions, "load": "paced"}
    outcomes = Outcomes(spec, 0, Window(), Mock(), UNDER_WAY)
    numbers = np.arange(partitions * UNDER_WAY, dtype=np.uint64)
    outcomes.made(numbers, numbers.astype(np.float64))
    waiting = numbers[::partitions]  # the others of each round have had their outcome
    assert (outcomes._due[waiting & outcomes._mask] == waiting).all()
