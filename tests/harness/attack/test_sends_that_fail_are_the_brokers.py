"""Brokers that took no record, or not all of a backlog, were INVALID, exit 6; others are BROKEN."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import sends_failed
from perfgate.measure.faults.fault_round import fault_round
from perfgate.measure.faults.flaws import failed_before
from perfgate.measure.faults.history import Written
from perfgate.model import Fault, FaultScenario, Load, Measurement, Round, Verdict
from perfgate.model.faults import NOTHING_DONE
from perfgate.model.load import LoadError, SendsFailedError
from perfgate.systems.kafka.load.librdkafka import LibrdkafkaDriver
from tests.harness.build import late_texts, measurement, scenario
from tests.harness.build.faults import FAULT, RATE, faulty, history, measured, round_that_left
from tests.harness.build.generators import SPEC, driver, observer

FAULTY = FaultScenario.of(replace(scenario(), load=Load(kind="paced", rate=100)), Fault(kind="kill-leader", hold_s=1))


def before_the_fault(error: Exception, tmp_path: Path, *, own: bool) -> Round:
    engine = MagicMock()
    engine.journaled.return_value.__enter__.return_value.begin.side_effect = error
    engine.journaled.return_value.__exit__.return_value = None
    cluster = MagicMock(dedicated=own)
    cluster.watch.return_value.__exit__.return_value = None
    usage: Any = MagicMock()
    usage.__exit__.return_value = None
    spec = replace(SPEC, scenario=FAULTY)
    return fault_round(FAULTY, cluster, Mock(), engine, spec, 1, Mock(), usage, tmp_path)


def judged(found: Round) -> Verdict:
    taken: Measurement = replace(measurement([1000.0]), scenario=FAULTY, rounds=(found,))
    return judge_scenario(taken, None).verdict


@pytest.mark.parametrize(
    ("error", "own", "verdict"),
    [
        (SendsFailedError("every record failed", attempted=500, failed=500), True, Verdict.BROKEN),
        (SendsFailedError("every record failed", attempted=500, failed=500), False, Verdict.INVALID),
        (LoadError("the generator process gave no ready"), True, Verdict.INVALID),
    ],
)
def test_brokers_that_take_nothing_before_a_fault_are_broken(
    error: Exception, own: bool, verdict: Verdict, tmp_path: Path
) -> None:
    assert judged(before_the_fault(error, tmp_path, own=own)) is verdict


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("attempted", "own", "verdict"),
    [(500, True, Verdict.BROKEN), (500, False, Verdict.INVALID), (0, True, Verdict.INVALID)],
)
def test_brokers_that_answer_nothing_at_all_are_broken(
    attempted: int, own: bool, verdict: Verdict, tmp_path: Path
) -> None:
    """No send has failed yet: those that answered one and then no more were BROKEN, these INVALID."""
    says = (
        f'{{"event": "progress", "at": 0, "attempted": {attempted}, "done": 0, "failed": 0}}',
        '{"event": "ready"}',
    )
    script = f"import sys\nprint(*{says}, sep='\\n', flush=True)\nfor line in sys.stdin: pass"
    with pytest.raises(LoadError, match="no record was acknowledged or received") as caught:
        driver(script).run(replace(SPEC, warmup_max_s=0.1), observer([]))
    found = before_the_fault(caught.value, tmp_path, own=own)
    assert judged(found) is verdict
    assert bool(late_texts(found)) is bool(attempted), "a machine that is busy with something else may be to blame"


@pytest.mark.parametrize(
    ("failed", "late", "verdict"),
    [
        ({"UNKNOWN_SERVER_ERROR": 3}, False, Verdict.BROKEN),
        ({"_MSG_TIMED_OUT": 3}, True, Verdict.BROKEN),
        ({"_MSG_TIMED_OUT": 2, "UNKNOWN_SERVER_ERROR": 1}, False, Verdict.BROKEN),
        ({}, True, Verdict.BROKEN),  # no answer to three of them
    ],
)
def test_brokers_that_do_not_take_a_backlog_are_broken(
    failed: dict[str, int], late: bool, verdict: Verdict, generators_by: Callable[..., None]
) -> None:
    running = MagicMock()
    running.__exit__.return_value = None
    result = {"acked": 7, "attempted": 10, "failed": failed, "errors": {}}
    running.__enter__.return_value.wait_for.return_value = [result]
    generators_by(lambda *_, **__: running)
    row = replace(scenario(), load=Load(kind="backlog", records=10))
    with pytest.raises(SendsFailedError, match="of the backlog's 10 records 7 were acknowledged") as caught:
        LibrdkafkaDriver().fill(replace(SPEC, scenario=row), Mock())
    found = sends_failed(1, caught.value, own_brokers=True)
    assert found.accounting.attempted == 3, "of those that were not taken"
    assert found.accounting.failed_total == sum(failed.values())
    assert bool(late_texts(found)) is late, "a machine that is busy with something else excuses that alone"
    assert judge_scenario(replace(measurement([1.0]), rounds=(found,)), None).verdict is verdict


def half_failing(code: int, since: float, *, every: int = 4) -> Written:
    """Return a history in which two of so many sends end in this error from then on."""
    written = history(down=False)
    (outcomes,) = written.outcomes
    outcomes = outcomes.copy()
    outcomes["error"][(outcomes["at"] >= since) & (outcomes["sequence"] % every < 2)] = code
    return replace(written, outcomes=[outcomes])


@pytest.mark.parametrize(
    ("kind", "producer", "written", "verdict"),
    [
        ("slow-follower", {}, half_failing(42, 0), Verdict.REGRESSED),
        ("time", {}, half_failing(42, 0), Verdict.REGRESSED),
        ("slow-follower", {}, half_failing(42, FAULT), Verdict.REGRESSED),
        ("slow-follower", {}, half_failing(42, FAULT, every=400), Verdict.INCONCLUSIVE),
        ("slow-follower", {}, half_failing(-192, FAULT, every=400), Verdict.INCONCLUSIVE),
        ("slow-follower", {"retries": "0"}, half_failing(42, FAULT, every=400), Verdict.PASS),
        ("slow-follower", {"delivery.timeout.ms": "1000"}, half_failing(-192, FAULT, every=400), Verdict.PASS),
        ("slow-follower", {"acks": "1"}, half_failing(42, FAULT, every=400), Verdict.PASS),
    ],
)
def test_sends_that_fail_since_a_fault_are_not_green_where_they_are_tried_again(
    kind: str, producer: dict[str, str], written: Written, verdict: Verdict
) -> None:
    marks = [(at, NOTHING_DONE if kind == "time" else words) for at, words in written.marks]
    row = replace(faulty(producer, kind), load=Load(kind="paced", rate=RATE))
    outcome = judge_scenario(measured(row, replace(written, marks=marks)), None)
    assert outcome.verdict is verdict, outcome.reasons
    assert any("sends failed since the fault" in reason for reason in outcome.reasons) is not verdict.green


@pytest.mark.parametrize(
    ("kind", "written", "found"),
    [
        ("kill-leader", half_failing(42, 0), (True, False)),
        ("kill-leader", half_failing(7, 0), (True, True)),
        ("kill-leader", half_failing(42, FAULT), None),
        ("time", half_failing(42, FAULT), (True, False)),
        ("return", half_failing(42, 0), None),
        ("time", history(), None),
    ],
)
def test_sends_that_fail_before_a_fault_or_without_one_are_the_brokers(
    kind: str, written: Written, found: tuple[bool, bool] | None
) -> None:
    flaw = failed_before(faulty(kind=kind), written)
    assert (flaw and ((flaw.whose == "brokers"), flaw.late)) == found


@pytest.mark.parametrize(("own", "verdict"), [(True, Verdict.BROKEN), (False, Verdict.INVALID)])
def test_a_round_with_such_sends_is_broken_on_brokers_of_the_suites_own(
    own: bool, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = round_that_left(half_failing(42, 0), tmp_path, monkeypatch, row=faulty(), own=own)
    assert "sends failed while nothing was done to the brokers" in found.invalid[0]
    assert judged(found) is verdict
