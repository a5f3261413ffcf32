"""The CPU quota of the container that a run is in: a client that it holds back is what limits the load."""

from collections.abc import Iterable
from itertools import count, repeat
from pathlib import Path

import pytest

from perfgate.host import machine_use
from perfgate.measure.host_validity import QUOTA_LIMIT
from perfgate.measure.validity import round_flaws
from perfgate.metrics.samplers import HELD_BACK, OwnQuota, Samplers
from perfgate.model import Load
from perfgate.model.compared import SATURATED
from tests.harness.build import accounting, load_result


def quota(*counts: tuple[int, int], above: Iterable[int] = repeat(7)) -> OwnQuota:
    """Return one of a group that counts so, beside one above it, of so many periods, that holds nothing back."""
    told = zip(counts, above, strict=False)

    def read() -> list[tuple[int, int]]:
        own, periods = next(told)
        return [own, (periods, 0)]

    return OwnQuota(read)


def test_the_share_is_of_the_periods_of_the_windows_alone() -> None:
    noted = quota((0, 0), (10, 5), (100, 90), (110, 91), above=count(7))
    samplers = Samplers((), "no usage", quota=noted)
    for _ in range(4):
        samplers.edge()
    assert samplers.metrics(1000, [0]) == {HELD_BACK: 0.5}
    assert samplers.metrics(1000, [0, 1]) == {HELD_BACK: 0.3}
    assert samplers.unavailable == "no usage"


def test_without_a_quota_there_is_nothing_to_tell() -> None:
    noted = quota((0, 0), (0, 0))
    noted.edge()
    noted.edge()
    assert noted.metrics([0]) == {}


@pytest.mark.parametrize("shares_cores", [True, False])
@pytest.mark.parametrize("held_back", [QUOTA_LIMIT, 0.5])
def test_a_client_that_is_held_back_is_the_limit(held_back: float, shares_cores: bool) -> None:
    """A throttled client fills its own buffer, which counted as push-back of the brokers': a false REGRESSED.

    A container that holds brokers and clients is the machine that they have.
    """
    found = round_flaws(
        Load(kind="capped", rate=100.0),
        load_result(),
        accounting(),
        {HELD_BACK: held_back},
        shares_cores=shares_cores,
    )
    quotas = [flaw for flaw in found if "CPU quota of the container" in flaw.text]
    assert len(quotas) == (held_back > QUOTA_LIMIT and not shares_cores)
    assert all(flaw.again and flaw.kind == SATURATED for flaw in quotas)


def test_a_quota_of_a_group_above_counts_too(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("0::/system.slice/runner.service/job\n")
    root = tmp_path / "fs"
    for group, text in (("", "usage_usec 1\n"), ("system.slice/runner.service", "nr_periods 7\nnr_throttled 3\n")):
        (root / group).mkdir(parents=True, exist_ok=True)
        (root / group / "cpu.stat").write_text(text)
    stats = machine_use._cpu_stats(own, (root,))
    assert [machine_use.periods_of(path.read_text()) for path in stats] == [(0, 0), (7, 3)]
