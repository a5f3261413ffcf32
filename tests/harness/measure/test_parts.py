"""Parts of a comparison: what is measured again does not make the plan smaller."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from perfgate.load.schedule import LARGEST_GAP_S
from perfgate.measure import parts
from perfgate.measure.assembly import Finished
from perfgate.measure.parts import Compared, measure_part, unhealthy_ends
from perfgate.measure.sides import Switch
from perfgate.measure.validity import late_turns
from perfgate.model import Load
from perfgate.model.errors import BrokersFailedError, LimitReachedError, TargetError, of_side
from tests.harness.build import flawed, one_round, scenario
from tests.harness.build.bursts import RATE, Bursts, both
from tests.harness.build.clock import Clock


def test_what_ends_the_others_is_not_of_a_scenario_that_is_decided() -> None:
    """Four of five had their answers when the target file's minutes were over: all five became INVALID."""
    rows = [Compared({side: scenario() for side in "AB"}, "turns", 1) for _ in range(2)]
    rows[0].decided = True
    with unhealthy_ends(rows, lambda: "B", dedicated=False):
        raise TargetError("stopped: 40 min are over")
    assert not any(rows[0].rounds.values())
    assert [one.invalid for one in rows[1].rounds["B"]] == [("target unhealthy: stopped: 40 min are over",)]


@pytest.mark.parametrize(("error", "unhealthy"), [(TargetError, True), (LimitReachedError, False)])
def test_a_limit_of_the_run_is_no_sick_target(error: type[TargetError], unhealthy: bool) -> None:
    row = Compared({side: scenario() for side in "AB"}, "turns", 1)
    with unhealthy_ends([row], lambda: "B", dedicated=False):
        raise error("stopped")
    assert [one.target_unhealthy for one in row.rounds["B"]] == [unhealthy]


def test_a_part_takes_as_long_as_the_try_that_counted(bursts: Bursts, clock: Clock) -> None:
    """Four units were planned for a budget of fifteen, because the first burst had been measured again twice."""
    tries = iter([(0.3, True), (0.3, True), (0.02, False)])

    def end() -> dict[str, Finished]:
        seconds, spoilt = next(tries)
        clock.sleep(seconds)
        found = one_round(1, 1000.0, invalid=("generator saturated",) if spoilt else ())
        return both(found, repeatable=spoilt)

    bursts.end = end
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    measure_part(row, bursts.benches, Switch(), 60, "ABBA")
    assert row.part_s == pytest.approx(0.02)
    assert [len(found) for found in row.discarded.values()] == [2, 2]


def test_turns_that_ran_into_one_another_are_given_a_longer_gap(bursts: Bursts) -> None:
    """A pair of living clusters, six brokers on two cores, ended INVALID after four of nine bursts were late."""

    def late() -> dict[str, Finished]:
        flaw = (late_turns(2, 2).text,) if len(bursts.paces) in (1, 2) else ()
        return both(one_round(1, RATE, invalid=flaw), repeatable=bool(flaw))

    bursts.end = late
    row = Compared(dict.fromkeys("AB", scenario()), "pairs", 1, 6)
    for _ in range(2):
        measure_part(row, bursts.benches, Switch(), 60, "ABBA")
    gaps = [at.gap_s for at in bursts.paces]
    first = gaps[0]
    assert gaps == pytest.approx([first, first * 1.5, first * 2.25, first * 2.25]), "and it stays so"
    assert row.repeated == 2


def test_brokers_that_tell_whose_they_are_are_to_blame_alone(bursts: Bursts) -> None:
    """A new version whose topics never got in sync was INVALID on both sides of a pair, since all processes ran."""

    def end() -> dict[str, Finished]:
        with of_side("A"), of_side("B"):  # the inner one knows best
            raise BrokersFailedError("its replicas are not in sync", perhaps_late=True)

    bursts.end = end
    row = Compared(dict.fromkeys("AB", scenario()), "pairs", 1, 6)
    with unhealthy_ends([row], lambda: "AB", dedicated=True):
        measure_part(row, bursts.benches, Switch(), 60, "ABBA")
    assert not row.rounds["A"]
    assert not row.discarded["A"], "what is late of one side is not late of the other"
    assert row.rounds["B"][0].broken
    assert [len(found) for found in row.discarded.values()] == [0, 1]


@pytest.mark.parametrize("times", [1, 2])
def test_replicas_that_are_late_once_are_measured_again(bursts: Bursts, times: int) -> None:
    """A new topic was not in sync within a minute on a machine that stood still: the changed side was BROKEN."""
    failures = iter([True] * times)

    def end() -> dict[str, Finished]:
        if next(failures, False):
            raise BrokersFailedError("its replicas are not in sync", perhaps_late=True)
        return both(one_round(1, 1000.0))

    bursts.end = end
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    if times == 1:
        assert measure_part(row, bursts.benches, Switch(), 60, "ABBA") == "ABBA"
        assert row.late == 1
    else:
        with pytest.raises(BrokersFailedError):
            measure_part(row, bursts.benches, Switch(), 60, "ABBA")


@pytest.mark.parametrize(("late", "sound"), [(5, True), (1000, False)])
def test_brokers_that_stand_still_while_they_are_new_end_no_comparison(bursts: Bursts, late: int, sound: bool) -> None:
    """Three of six comparisons on two slow cores were INVALID after three bursts, within a minute."""

    def end() -> dict[str, Finished]:
        flaw = (late_turns(1, 1).text,) if len(bursts.paces) <= late else ()
        return both(one_round(1, RATE, invalid=flaw), repeatable=bool(flaw))

    bursts.end = end
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    measure_part(row, bursts.benches, Switch(), 60, "ABBA")
    assert row.unsound is not sound
    assert len(bursts.paces) == min(late, parts.REPEATS) + 1
    assert max(at.gap_s for at in bursts.paces) <= LARGEST_GAP_S


def test_a_burst_that_is_spoilt_when_the_time_is_over_is_dropped(bursts: Bursts) -> None:
    """It was measured again beyond the budget, or ended the comparison."""
    bursts.end = lambda: both(one_round(1, RATE, invalid=(late_turns(1, 1).text,)), repeatable=True)
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    for rounds in row.rounds.values():
        rounds.append(one_round(1, RATE))
    assert measure_part(row, bursts.benches, Switch(), 0, "ABBA") == ""
    assert not row.unsound
    assert [len(found) for found in row.discarded.values()] == [1, 1]


def test_one_that_is_all_there_is_when_the_time_is_over_is_kept(bursts: Bursts) -> None:
    """A candidate 30 times slower was INCONCLUSIVE, "0 units were measured"; with a longer budget it was SLOWER."""
    bursts.end = lambda: both(one_round(1, 400.0, invalid=(late_turns(1, 1).text,)), repeatable=True)
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    assert measure_part(row, bursts.benches, Switch(), 0, "ABBA") == "ABBA"
    assert row.unsound
    assert [len(found) for found in row.rounds.values()] == [1, 1]


def test_one_that_was_only_late_is_not(bursts: Bursts) -> None:
    """Its brokers were BROKEN by three records that were waited for until the budget was over."""
    late = ("3 of 3,000 records had no outcome when the wait ended",)
    bursts.end = lambda: both(flawed(one_round(1, RATE, invalid=late), perhaps_late=late, broken=late))
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    assert measure_part(row, bursts.benches, Switch(), 0, "ABBA") == ""
    assert [len(found) for found in row.rounds.values()] == [0, 0]


def test_windows_are_as_long_as_what_decides_takes_to_tell(bursts: Bursts) -> None:
    """Four scrapes of a Prometheus never lay in a turn of a second: brokers' CPU could not decide."""
    bursts.end = lambda: both(one_round(1, RATE))
    row = Compared(dict.fromkeys("AB", scenario()), "pairs", 1, 6)
    asked: list[float] = []

    def one(*_: Any, least_s: float, hosts: int) -> Finished:
        assert hosts == 0
        asked.append(least_s)
        return Finished(round=one_round(1, RATE), repeatable=False)

    bursts.benches["A"].round = one  # the bench of both sides
    measure_part(row, bursts.benches, Switch(), 60, "ABBA")
    row.orders, row.planned = ["ABBA"], 7
    row.lengthen(5.0, 2)
    assert (row.parts, row.units, row.parts_done, row.planned) == (2, 0, 0, 0), "what was too short does not count"
    assert [len(found) for found in row.discarded.values()] == [1, 1]
    measure_part(row, bursts.benches, Switch(), 60, "ABBA")
    assert [at.window_s for at in bursts.paces] == [1.0, 5.0]
    row.per_part = 2
    measure_part(row, bursts.benches, Switch(), 60, "ABBA")
    assert asked == [5.0] * 4


@pytest.mark.parametrize(("late", "kept"), [((True,), 0), ((True, True), 1), ((False,), 0)])
def test_what_was_late_is_measured_again_once(bursts: Bursts, late: tuple[bool, ...], kept: int) -> None:
    tries = iter([*late, False])
    reason = "12 of 1,000 sends timed out"

    def end() -> dict[str, Finished]:
        marks: dict[str, Any] = {"invalid": (reason,), "perhaps_late": (reason,)} if next(tries) else {}
        found = {"A": one_round(1, 1000.0), "B": flawed(one_round(1, 1000.0), **marks)}
        return {side: Finished(round=r, repeatable=False) for side, r in found.items()}

    bursts.end = end
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    measure_part(row, bursts.benches, Switch(), 60, "ABBA")
    assert len(row.discarded["B"]) == (1 if late[0] else 0)
    assert sum(bool(r.invalid) for r in row.rounds["B"]) == kept == row.unsound


def test_a_generator_that_was_late_too_takes_nothing_from_it(bursts: Bursts) -> None:
    """Of a machine that stood still both sides tell: one that its sends were late, the other its generator."""
    tries = iter([True, False])

    def end() -> dict[str, Finished]:
        if not next(tries):
            return both(one_round(1, 1000.0))
        sends = flawed(one_round(1, 1000.0), invalid=("12 sends timed out",), perhaps_late=("12 sends timed out",))
        still = one_round(1, 1000.0, invalid=("the generators stood still",))
        return {"A": Finished(round=sends, repeatable=False), "B": Finished(round=still, repeatable=True)}

    bursts.end = end
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1)
    measure_part(row, bursts.benches, Switch(), 60, "ABBA")
    assert not row.unsound
    assert row.late == 1


@pytest.mark.parametrize("every", [2, 4, 1])
def test_of_a_block_the_round_alone_is_measured_again_that_was_sent_late(clock: Clock, every: int) -> None:
    """Kafka 4.3.1 against 3.9.1, end to end: a quarter of the rounds was sent late, and ended it after eight blocks."""
    paced = replace(scenario(), load=Load(kind="paced", rate=1000.0))
    asked, row = list[str](), Compared(dict.fromkeys("AB", paced), "pairs", 2, 2)

    def bench(side: str) -> Any:
        def one(*_: Any, **__: Any) -> Finished:
            clock.now += 10.0
            asked.append(side)
            late = {"latency_ms": "sent late"} if len(asked) % every == 0 else {}
            return Finished(round=flawed(one_round(1, 1000.0), invalid_metrics=late), repeatable=bool(late))

        return SimpleNamespace(round=one)

    benches = {side: bench(side) for side in "AB"}
    first = measure_part(row, benches, Switch(), 1.0, "ABBA")
    assert (first, row.part_s) == ("ABBA", 40.0), "what was measured again makes the plan no smaller"
    if every == 1:
        assert [len(found) for found in row.discarded.values()] == [parts.REPEATS, 0]
        assert row.unsound
        return
    assert not row.unsound
    again = [i for i in range(len(asked)) if (i + 1) % every == 0]
    assert "".join(side for i, side in enumerate(asked) if i not in again) == "ABBA"
    assert sum(map(len, row.discarded.values())) == row.repeated == len(again)


def test_what_one_spoilt_part_leaves_is_measured() -> None:
    """A comparison ended with the first part that was spoilt: nothing was left to know a loss by."""
    row = Compared(dict.fromkeys("AB", scenario()), "turns", 1, planned=20)
    for number in range(1, 7):
        flaw = ("generator saturated",) if number == 1 else ()
        row.rounds["A"].append(one_round(number, 1000.0, invalid=flaw))
        row.rounds["B"].append(one_round(number, 50.0))
        row.orders.append("ABBA")
        assert row.unsound
        assert row.done(4) is (number > 4)
    row.rounds["B"][-1] = flawed(one_round(6, 50.0, invalid=("a broker died",)), broken=("a broker died",))
    row.orders[:] = ["ABBA"]
    assert row.done(4), "brokers that failed are a result"
