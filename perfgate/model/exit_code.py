"""Exit codes of the gate, which CI goes by."""

from collections.abc import Mapping
from enum import IntEnum


class ExitCode(IntEnum):
    """How a run ended; :func:`perfgate.judge.run_end.ending` decides it.

    ENDED_EARLY: refused as wrong usage, or interrupted, as pytest has it. UNDECIDED: nothing is red, but something was
    inconclusive or invalid, was not measured to its end, or was held against nothing. NOT_RECORDED: nothing is red, and
    run.json could not be written; or green, and the HTML report could not be built or another report met a bug of the
    suite. LEFT_BEHIND: not all that it had changed on real brokers could be put
    back, which comes before any verdict. UNHEALTHY: nothing is red, but measuring stopped because real brokers were no
    longer healthy. ERROR: nothing is red, but an error of the suite or of a plugin kept the run from its verdict, or
    ended a test of its own. Other codes are those of pytest, and of no verdict.
    """

    GREEN = 0
    RED = 1
    ENDED_EARLY = 2
    NOT_RECORDED = 3
    UNDECIDED = 6
    LEFT_BEHIND = 7
    UNHEALTHY = 8
    ERROR = 9


UNFINISHED: Mapping[int, str] = {
    ExitCode.ENDED_EARLY: "the run was interrupted",
    ExitCode.LEFT_BEHIND: "not all that the run changed was put back",
    ExitCode.UNHEALTHY: "the target became unhealthy",
    ExitCode.ERROR: "an error kept it from its verdict",
}
"""Why a run that ended so is no ground for a decision."""
JUDGED = (ExitCode.GREEN, ExitCode.RED, ExitCode.UNDECIDED)
"""Those of a run that came to its end with a verdict, or with none that noise allowed."""
REPORTED = (*JUDGED, ExitCode.LEFT_BEHIND, ExitCode.UNHEALTHY, ExitCode.ERROR)
"""Those of a run of which an HTML report is built. Others were refused, broken off, or not of the gate."""
