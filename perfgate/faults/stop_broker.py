"""stop-broker: the Pulsar broker that serves the first partition is shut down in good order, and started again."""

from perfgate.faults.costs import moved, shut_down
from perfgate.model.faults import FaultKind

FAULT = FaultKind(name="stop-broker", act=shut_down, sending=moved, commands=("stop", "start"))
