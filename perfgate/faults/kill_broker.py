"""kill-broker: the Pulsar broker that serves the first partition crashes (SIGKILL); others take over; it comes back."""

from perfgate.faults.costs import crash
from perfgate.model.faults import Case, Expectation, FaultKind

TAKEN_OVER_S = 5.0
"""Time in which others take its partitions over, once its session has ended. Measured: 3 to 5 s (2 cores)."""
FOUND_S = 5.0
"""Time from a client's look at the partition's new broker until its first message is acknowledged there."""
FIRST_WAIT_S, LONGEST_WAIT_S, LESS_AT_RANDOM = 0.1, 60.0, 0.09
"""Waits of a client before it looks for its broker again: the first, twice as long each time up to the longest, and up
to a share less at random (pulsar-client-cpp, lib/Backoff.cc; the Java client's defaults are the same)."""


def next_look_s(served_s: float) -> float:
    """Latest time at which a client looks again where its partition is served after `served_s`, in s since its loss."""
    looked, wait = 0.0, FIRST_WAIT_S
    while (1 - LESS_AT_RANDOM) * (looked + wait) < served_s:
        looked, wait = looked + wait, min(2 * wait, LONGEST_WAIT_S)
    return min(served_s, looked) + wait


def _sending(case: Case) -> Expectation:
    most_s = next_look_s(case.last + TAKEN_OVER_S) + FOUND_S
    why = (
        f"{case.fenced}, then another broker opens its partitions, within {TAKEN_OVER_S:g} s; clients look for it "
        "after waits that double each time"
    )
    return Expectation(case.first, most_s, why)


FAULT = FaultKind(
    name="kill-broker",
    act=crash,
    sending=_sending,
    commands=("kill", "start"),
    no_effect="a broker that is shut down in good order is not killed; ",
)
