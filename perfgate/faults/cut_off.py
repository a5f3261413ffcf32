"""cut-off: all links of the broker that leads the first partition are severed, and mended."""

from perfgate.faults.costs import still
from perfgate.model.faults import FaultKind

FAULT = FaultKind(
    name="cut-off",
    act=lambda scene: scene.away_for_a_while("cut-off"),
    sending=still,
    commands=("cut-off", "heal"),
)
