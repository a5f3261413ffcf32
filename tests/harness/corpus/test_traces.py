"""Traces of measurements on fake clusters, held to what is frozen (python -m tests.harness.corpus.traces)."""

import pytest

from tests.harness.corpus.traces import CASES, difference, trace


@pytest.mark.parametrize("name", CASES)
def test_it_does_what_it_did(name: str) -> None:
    assert difference(name, trace(name)) == ""
