"""Fixtures of measuring."""

from collections.abc import Callable
from functools import partial

import pytest

from perfgate.measure import comparing, parts
from tests.harness.build.bursts import Bursts


@pytest.fixture
def bursts(monkeypatch: pytest.MonkeyPatch) -> Bursts:
    """The bursts of all comparisons of a test."""
    made = Bursts()
    monkeypatch.setattr(parts, "burst", made)
    return made


@pytest.fixture
def part_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., str]], None]:
    """Return a function that lets comparisons measure each part by the function that it is given."""
    return partial(monkeypatch.setattr, comparing, "measure_part")
