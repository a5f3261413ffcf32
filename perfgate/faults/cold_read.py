"""cold-read: consumers stay away for a while; their unread records are no longer in the brokers' page cache."""

from perfgate.faults.consumers_away import back_after, catching_up, stay_away
from perfgate.faults.costs import unmoved
from perfgate.model.errors import TargetError
from perfgate.model.faults import Expectation, FaultKind, FaultScenario, Scene

MOST_LEFT = 0.1
"""Share of the brokers' logs that may stay in the page cache: the newest records are written all the time."""
SETTLE_S = 5.0
"""Dirty pages are written to disk at once, which producers feel: not while records are read."""
WRITTEN_BYTES_PER_S = 20e6
"""A disk that writes the rest more slowly keeps consumers away for longer than is expected."""


def _act(scene: Scene) -> None:
    def drop() -> None:
        scene.faults.drop_cache()
        scene.hold(SETTLE_S)
        left = scene.faults.drop_cache()
        scene.mark(f"dropped from the page cache, {left:.1%} left")
        if left > MOST_LEFT:
            raise TargetError(f"{left:.0%} of the brokers' logs stay in the page cache: what is read is not cold")

    stay_away(scene, drop)


def _receiving(scenario: FaultScenario) -> Expectation:
    return back_after(scenario, SETTLE_S + scenario.offered_bytes_per_s * scenario.fault.hold_s / WRITTEN_BYTES_PER_S)


FAULT = FaultKind(
    name="cold-read",
    act=_act,
    sending=unmoved,
    receiving=_receiving,
    commands=None,  # a command for each broker's host would need another that gives the cache back
    brokers_down=0,
    leaves_unread=True,
    drops_cache=True,
    meanwhile="with nobody reading",
    note=lambda figures: catching_up(figures, "from disk: "),
)
