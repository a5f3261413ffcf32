"""kill-broker: the Pulsar broker that serves the first partition crashes (SIGKILL); others take over; it comes back."""

from perfgate.faults.costs import crash
from perfgate.model.faults import Case, Expectation, FaultKind

TAKEN_OVER_S = 10.0
"""What others need to take its partitions over, once its session has ended, and clients to find them. Measured: 3 to
5 s (4.0.8, 4.2.4) on 2 cores."""


def _sending(case: Case) -> Expectation:
    why = f"{case.fenced}, then another broker opens its partitions and clients look for it"
    return Expectation(case.first, case.last + TAKEN_OVER_S, why)


FAULT = FaultKind(
    name="kill-broker",
    act=crash,
    sending=_sending,
    commands=("kill", "start"),
    no_effect="a broker that is shut down in good order is not killed; ",
)
