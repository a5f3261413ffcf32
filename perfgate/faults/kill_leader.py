"""kill-leader: the broker that leads the first partition crashes (SIGKILL), and comes back."""

from perfgate.faults.costs import crash
from perfgate.model.faults import Case, Expectation, FaultKind

DISCOVERY_S = 2.0
"""A client hears of new leaders by asking for metadata: after an error, and again after a back-off of up to 1 s."""


def _sending(case: Case) -> Expectation:
    return Expectation(case.first, case.last + DISCOVERY_S, f"{case.fenced}, then clients look for the new leader")


FAULT = FaultKind(
    name="kill-leader",
    act=crash,
    sending=_sending,
    commands=("kill", "start"),
    no_effect="a broker that is shut down in good order is not killed; ",
)
