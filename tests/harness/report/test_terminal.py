"""The tables at a run's end, worst first, and its last line: the first word follows from the exit code."""

import pytest

from perfgate.model import Effect, Outcome, Verdict
from perfgate.report.terminal import summary_line, write_table

PASSED = Outcome(name="batch-1k", verdict=Verdict.PASS, judgements=())


@pytest.mark.parametrize(
    ("exit_code", "word"),
    [(0, "GREEN"), (1, "RED"), (2, "INTERRUPTED"), (3, "RED"), (6, "UNDECIDED"), (7, "RED")],
)
def test_the_first_word_follows_from_the_exit_code(exit_code: int, word: str) -> None:
    assert summary_line([PASSED], [], 3, exit_code).startswith(f"{word}: judged 1 of 1 scenarios (1 PASS)")


class Lines:
    """A terminal that keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, content: str) -> None:
        self.text += content

    def write_line(self, line: str, **_markup: bool) -> None:
        self.text += line + "\n"

    @property
    def names(self) -> list[str]:
        """The first cell of each row, without the head."""
        return [line.split()[0] for line in self.text.splitlines()[1:]]


def test_the_worst_verdict_stands_first_and_equal_ones_keep_their_order() -> None:
    terminal = Lines()
    verdicts = ("PASS", "MISSING", "REGRESSED", "PASS", "INVALID", "BROKEN", "INCONCLUSIVE", "IMPROVED")
    write_table(terminal, ("scenario", "verdict"), [(f"row-{i}", verdict) for i, verdict in enumerate(verdicts)])
    assert terminal.names == ["row-5", "row-2", "row-4", "row-6", "row-1", "row-7", "row-0", "row-3"]


def test_a_table_of_a_comparison_stands_worst_first_too() -> None:
    terminal = Lines()
    effects = (Effect.SAME, Effect.FASTER, Effect.INCONCLUSIVE, Effect.SLOWER)
    write_table(terminal, ("scenario", "verdict"), [(effect.name, effect.value) for effect in effects])
    assert terminal.names == ["SLOWER", "INCONCLUSIVE", "FASTER", "SAME"]


def test_a_table_without_verdicts_keeps_its_order() -> None:
    terminal = Lines()
    write_table(terminal, ("scenario", "about"), [("b", "10 s"), ("a", "20 s")])
    assert terminal.names == ["b", "a"]
