"""Fixtures of measuring."""

import pytest

from perfgate.measure import parts
from tests.harness.build.bursts import Bursts


@pytest.fixture
def bursts(monkeypatch: pytest.MonkeyPatch) -> Bursts:
    """The bursts of all comparisons of a test."""
    made = Bursts()
    monkeypatch.setattr(parts, "burst", made)
    return made
