"""pause-broker: the Pulsar broker that serves the first partition stands still (SIGSTOP), and goes on."""

from perfgate.faults.costs import still
from perfgate.model.faults import FaultKind

FAULT = FaultKind(
    name="pause-broker",
    act=lambda scene: scene.away_for_a_while("pause"),
    sending=still,
    commands=("pause", "resume"),
)
