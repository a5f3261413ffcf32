"""Parts of several faults: taking a broker away, and the cost of leaders that move in good order, or not."""

from collections.abc import Callable

from perfgate.model.faults import Case, Expectation, Scene

MOVED_S, UNMOVED_S = 3.0, 1.0
"""What moving leaders in good order costs at most, and what is seen where none moves. Measured on 2 cores: 0.3 to 2.5 s
(the longest on brokers that had just started), and 0.1 to 0.6 s."""
REQUESTS = 10
"""And this many requests as slow as one in a hundred was before the fault: one refused, metadata asked for again and
again, the record sent again. On a quiet machine these take 0.3 s; a slow one is no fault of the brokers."""
SLOW_S = 0.2
"""A p99 beyond that before the fault may be the brokers' own doing: what only that explains is not known to be well."""
FIND_S = 5.0
"""What consumers may need, once leaders or members are there, to find them."""


def crash(scene: Scene) -> None:
    """Kill the broker that leads the first partition, hold that, and bring it back."""
    broker = scene.leader()
    scene.do("kill", broker)
    scene.hold()
    scene.gone(broker)
    scene.bring_back(broker)


def shut_down(scene: Scene) -> None:
    """Have the broker that leads the first partition end in good order, hold that, and bring it back."""
    broker = scene.leader()
    scene.do("stop", broker)
    scene.hold()
    scene.faults.wait_until_ended(broker)
    scene.gone(broker)
    scene.bring_back(broker)


def _at_most(base_s: float, why: str) -> Callable[[Case], Expectation]:
    def expected(case: Case) -> Expectation:
        most_s = max(base_s, case.first)
        slow_s, sure_s = (base_s + REQUESTS * usual for usual in (case.usual, min(case.usual, SLOW_S)))
        return Expectation(0.0, min(slow_s, most_s), why, sure_s if sure_s < min(slow_s, most_s) else None)

    return expected


moved, unmoved = _at_most(MOVED_S, "leaders move in good order"), _at_most(UNMOVED_S, "no leader moves")


def still(case: Case) -> Expectation:
    """Return the cost of a broker that answers nothing while its connections stay open.

    A request under way waits until the broker answers again, or it times out; by then another broker leads.
    """
    why = f"{case.fenced}; a request on an open connection waits up to the {case.hold:g} s"
    return Expectation(min(case.first, case.hold), max(case.hold, case.last) + FIND_S, why)
