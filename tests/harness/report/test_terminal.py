"""The last line of a run: its first word follows from the exit code."""

import pytest

from perfgate.model import Outcome, Verdict
from perfgate.report.terminal import summary_line

PASSED = Outcome(name="batch-1k", verdict=Verdict.PASS, judgements=())


@pytest.mark.parametrize(
    ("exit_code", "word"),
    [(0, "GREEN"), (1, "RED"), (2, "INTERRUPTED"), (3, "RED"), (6, "UNDECIDED"), (7, "RED")],
)
def test_the_first_word_follows_from_the_exit_code(exit_code: int, word: str) -> None:
    assert summary_line([PASSED], [], 3, exit_code).startswith(f"{word}: judged 1 of 1 scenarios (1 PASS)")
