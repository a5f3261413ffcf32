"""Exit codes of the gate, which CI goes by."""

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """How a run ended.

    ENDED_EARLY: refused as wrong usage, or interrupted, as pytest has it. UNDECIDED: it failed, but only because
    something was inconclusive or invalid, or nothing at all was judged. NOT_RECORDED: its run.json could not be
    written, or green and its HTML report could not be built or another met a bug of the suite: nothing stands for a
    verdict; pytest's own code of an internal error. LEFT_BEHIND: not all that it had changed on real brokers could be
    put back, which comes before any verdict. Other codes are those of pytest, and of no verdict.
    """

    GREEN = 0
    RED = 1
    ENDED_EARLY = 2
    NOT_RECORDED = 3
    UNDECIDED = 6
    LEFT_BEHIND = 7


UNFINISHED: Mapping[int, str] = {
    ExitCode.ENDED_EARLY: "the run was interrupted",
    ExitCode.LEFT_BEHIND: "not all that the run changed was put back",
}
"""Why a run that ended so is no ground for a decision."""
JUDGED = (ExitCode.GREEN, ExitCode.RED, ExitCode.UNDECIDED)
"""Those of a run that came to its end with a verdict, or with none that noise allowed."""
