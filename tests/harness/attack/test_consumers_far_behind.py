"""Consumers a little slower were REGRESSED; those so slow that they never got what was acknowledged were INVALID."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import round_of
from perfgate.measure.canary import usable_cores
from perfgate.measure.validity import Processors, processors_allowed, round_flaws
from perfgate.model import CanaryReading, Load, Round, Verdict
from perfgate.model.delivery import is_idempotent
from perfgate.model.load import LoadResult
from tests.harness.build import accounting, late_texts, load_result, measurement, received, scenario, sent
from tests.harness.build.hosts import HOST, MACHINE

CAPPED = Load(kind="capped", rate=1000.0)
BEHIND = {"read": 2000, "received": 2000, "received_in_window": 200}
NOTHING = {"received_in_window": 0}
QUIET = CanaryReading(deflate_mib_per_s=70.0, loopback_per_s=20_000.0, pressure=0.0, steal=0.0)
AT_LIMIT = replace(HOST, machine=replace(MACHINE, cpu_share=0.99))


def told(read: dict[str, Any], **changes: Any) -> LoadResult:
    return replace(load_result(sent=sent(**changes.pop("sent", {})), received=received(**read)), **changes)


def measured(
    result: LoadResult,
    *,
    used: float | None = 1.0,
    own: bool = True,
    allowed: float = 4,
    idempotent: bool = False,
) -> Round:
    """Return the round of this load on a machine of 4 cores, `allowed` so many, of which its brokers `used` so many."""
    brokers = {} if used is None else {"broker_cpu_cores.sum": used, "broker_cpu_cores.max": used / 3}
    found = round_flaws(
        CAPPED,
        result,
        accounting(3000),
        brokers,
        shares_cores=own,
        idempotent=idempotent,
        processors=Processors(there=4, allowed=allowed),
    )
    return round_of(1, result, accounting(3000), brokers, found, "", own_brokers=own)


def verdict(found: Round, canary: tuple[CanaryReading, ...] = ()) -> Verdict:
    return judge_scenario(replace(measurement([1000.0]), rounds=(found,), canary=canary), None).verdict


@pytest.mark.parametrize("read", [BEHIND, NOTHING, {"received": 5999, "by_group": [(3000, 9), (2999, 9)]}])
def test_what_consumers_never_got_of_brokers_is_red(read: dict[str, Any]) -> None:
    found = measured(told(read))
    assert found.invalid
    assert found.broken == late_texts(found) == found.invalid
    assert verdict(found) is Verdict.BROKEN
    assert verdict(found, (*[QUIET] * 3, replace(QUIET, steal=0.95))) is Verdict.INVALID, "another load's doing"
    assert verdict(found, (*[QUIET] * 3, replace(QUIET, steal=0.5))) is Verdict.BROKEN, "half of the time is no reason"
    elsewhere = measured(told(read), own=False)
    assert (verdict(elsewhere), late_texts(elsewhere)) == (Verdict.INVALID, elsewhere.invalid)


@pytest.mark.parametrize(
    ("result", "used"),
    [
        (told(BEHIND, cpu_cores=2.0), 1.9),  # generators had most of all processors
        (told(BEHIND, cpu_cores=0.9), 3.0),  # brokers had them, and left none to consumers
        (told(BEHIND, cpu_cores=2.9, hosts=(replace(HOST, machine=replace(MACHINE, with_run=True)),)), 1.0),
        (told(BEHIND, cpu_cores=2.9, hosts=(replace(HOST, machine=None),)), 1.0),
        (told(BEHIND), None),
        (told(BEHIND, busiest_thread_cores=0.96), 3.0),
        (told(BEHIND, window_late_s=0.5), 1.0),
        (told(BEHIND, sent={"stalled_in_window_s": 1.0}), 1.0),
        (told(BEHIND, sent={"throttled_ms": 5}), 1.0),
        (told(BEHIND, hosts=(AT_LIMIT, HOST), one_clock=True), 1.0),
        (told({"received": 3001}), 1.0),
        (told(NOTHING, sent={"markers_by_partition": [1]}), 1.0),  # committed after the window, it may be
    ],
)
def test_what_may_be_the_generators_doing_is_not(result: LoadResult, used: float | None) -> None:
    found = measured(result, used=used)
    assert found.invalid
    assert not found.broken
    assert verdict(found) is Verdict.INVALID


@pytest.mark.parametrize(
    ("result", "used"),
    [
        (told(NOTHING, cpu_cores=0.9), 3.0),
        (told(NOTHING, cpu_cores=2.0), 1.9),
        (told({"received": 0, "received_in_window": 0}, sent={"stalled_in_window_s": 1.0}), 3.0),
        (told({"received": 0, "received_in_window": 0}, sent={"markers_by_partition": [1]}), 3.0),
    ],
)
def test_consumers_that_are_given_nothing_lack_no_processor(result: LoadResult, used: float) -> None:
    """BROKEN where brokers used 1.0 of 2 cores, INVALID where they used 1.75."""
    assert verdict(measured(result, used=used)) is Verdict.BROKEN


@pytest.mark.parametrize(
    ("read", "idempotent", "late"),
    [
        ({**BEHIND, "missed": 4}, False, False),
        ({**BEHIND, "failed": {"_TRANSPORT": 2}}, False, False),
        ({**BEHIND, "failed": {"_TIMED_OUT": 2}}, False, True),
        ({"duplicated": 1}, False, True),  # sent again, because the answer was late
        ({"reordered": 1}, False, True),
        ({"duplicated": 1}, True, False),
        ({"reordered": 1}, True, False),
    ],
)
def test_what_brokers_give_wrongly_is_theirs(read: dict[str, Any], idempotent: bool, late: bool) -> None:
    found = measured(told(read, cpu_cores=2.0), used=1.9, idempotent=idempotent)
    assert verdict(found) is Verdict.BROKEN
    assert bool(late_texts(found)) is late


def test_who_is_idempotent() -> None:
    assert not is_idempotent(scenario())
    assert is_idempotent(replace(scenario(), producer=(("enable.idempotence", "true"),)))
    assert is_idempotent(replace(scenario(), transaction_ms=100))


def test_processors_that_the_run_may_not_use_are_not_left_over() -> None:
    """By taskset or a container's quota it had two of four, and used them."""
    assert not measured(told(BEHIND, cpu_cores=1.0), allowed=2).broken


def test_a_containers_quota_counts(tmp_path: Path) -> None:
    quota, usable = tmp_path / "cpu.max", usable_cores()
    assert processors_allowed(quota) == usable
    for text, allowed in (("75000 100000\n", 0.75), ("max 100000\n", usable), (f"{usable}60000 10000\n", usable)):
        quota.write_text(text)
        assert processors_allowed(quota) == allowed


def test_load_hosts_are_looked_at_one_by_one() -> None:
    """Their generators are not on the brokers' machine: 5 cores of theirs are none of its 4."""
    hosts = tuple(replace(HOST, name=name, machine=MACHINE) for name in ("host-1", "host-2"))
    assert measured(told(BEHIND, cpu_cores=5.0, hosts=hosts, one_clock=True)).broken
