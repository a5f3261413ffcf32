"""stop-leader: the broker that leads the first partition is shut down in good order (SIGTERM), and started again."""

from perfgate.faults.costs import moved, shut_down
from perfgate.model.faults import FaultKind

FAULT = FaultKind(name="stop-leader", act=shut_down, sending=moved, commands=("stop", "start"))
