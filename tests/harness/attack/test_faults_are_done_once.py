"""A confirmation run of a plain row took red rows with a fault along: leaders killed unasked, histories overwritten."""

from perfgate.judge.confirmation import to_measure_again
from tests.harness.attack.test_lost_records_win import rounds
from tests.harness.build import measurement, profile, relation, threshold

SLOW = threshold("records_per_s", 1000.0, 0.1)


def test_red_rows_with_a_fault_are_not_measured_again() -> None:
    taken = {"batch-1k": measurement([500, 500, 500]), "kill-leader": rounds("lost", "lost")}
    assert to_measure_again(taken, profile(SLOW), ()) == {"batch-1k"}


def test_nor_are_those_of_a_red_relation() -> None:
    fast, slow = measurement([500, 500, 500], "fast"), measurement([1000, 1000, 1000], "slow")
    assert to_measure_again({"fast": fast, "slow": slow}, None, (relation(1.5),)) == {"fast", "slow"}
    faulty = rounds("good", "good", "good")
    assert to_measure_again({"fast": fast, "slow": faulty}, None, (relation(99.0),)) == {"fast"}


def test_what_is_green_is_not_measured_again() -> None:
    taken = {"batch-1k": measurement([1000, 1010, 990]), "kill-leader": rounds("good")}
    assert to_measure_again(taken, profile(SLOW), ()) == set()
