"""kill-bookie-no-spare: a bookie crashes and no other can take its place; no service until it is back.

A broker whose write failed asks for another ensemble before it acknowledges more, and closes the ledger when there is
none ("Not enough non-faulty bookies"), although the ack quorum is met: Pulsar's default.
"""

from perfgate.faults.kill_bookie import kill_a_bookie
from perfgate.model.faults import Case, Expectation, FaultKind

BACK_S = 30.0
"""A bookie that starts again reads its journal and registers; brokers then open ledgers anew. Measured: 5 to 10 s."""
SHORTER = 0.5
"""Share of the hold time: a partition that has not written since may not have noticed at first."""


def _sending(case: Case) -> Expectation:
    why = f"no ensemble can be made while the bookie is away for {case.hold:g} s, then it starts"
    return Expectation(SHORTER * case.hold, case.hold + BACK_S, why)


FAULT = FaultKind(name="kill-bookie-no-spare", act=kill_a_bookie, sending=_sending, commands=None)
