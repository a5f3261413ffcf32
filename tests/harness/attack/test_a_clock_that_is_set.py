"""Windows on Prometheus' clock that lie off the load, where brokers idle: too little CPU, and so a green."""

from typing import Any

import pytest

from perfgate.host.clocks import Estimate
from perfgate.metrics.prometheus import Series
from perfgate.model.errors import ConfigurationError
from tests.harness.build.prometheus import KAFKA, Scraped, sampled


class Stepped(Scraped):
    """A Prometheus whose clock stands at the second number, against this machine's, in each look."""

    def __init__(self, *looks: Estimate | None) -> None:
        super().__init__(*KAFKA)
        self._looks, self.first, self.at = list(looks), Estimate(at=-3600.0, offset=0.0, bound=0.0), list[float]()

    def look(self) -> Estimate:
        if (one := self._looks.pop(0)) is None:
            raise ConfigurationError("Prometheus http://p: no answer")
        return one

    def instant(self, query: str, at: float) -> list[Series]:
        self.at.append(at)
        return super().instant(query, at)


def looked(at: float, ahead_s: float, bound_s: float = 0.01) -> Estimate:
    return Estimate(at, ahead_s, bound_s)


@pytest.mark.parametrize(
    ("looks", "why"),
    [
        ((looked(5, 0), looked(25, 3)), "was set by 3.0 s during the round"),
        ((looked(5, 1000), looked(25, 996)), "was set by 4.0 s during the round"),
        ((looked(5, 0), looked(25, 0.2)), ""),
        ((looked(5, 0, 1.0), looked(25, 2.0, 1.0)), ""),
        ((looked(5, 0), looked(5 + 4 * 3600, 2.0)), ""),
        ((looked(5, 0), None), "no answer"),
        ((None, looked(25, 0.1)), ""),
        ((None, looked(25, 30.0)), "was set by 30.0 s"),
    ],
)
def test_a_clock_that_is_set_during_a_round_makes_its_cpu_unknown(looks: tuple[Estimate | None, ...], why: str) -> None:
    """The offset was taken once: after a step every window lay off its load, and the CPU of idle brokers was green."""
    prometheus: Any = Stepped(*looks)
    found, said = sampled(prometheus)
    assert why in said
    assert bool(found) is not bool(why)
    assert bool(said) is bool(why)


def test_windows_follow_prometheus_clock_from_round_to_round() -> None:
    """A clock that was set between two rounds is another offset from then on."""
    prometheus: Any = Stepped(looked(5, 100), looked(25, 100), looked(30, 700), looked(50, 700))
    sampled(prometheus)
    sampled(prometheus)
    assert sorted({at // 100 for at in prometheus.at}) == [1, 7]
