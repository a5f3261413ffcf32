"""One judge: guards and claims in one order, one file each; a guard's bug is no verdict; doubts hide no catastrophe."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perfgate.judge.claim import Case, JudgeError, Ruling, guard, guards_of, judge, worst
from perfgate.judge.claims.more_hosts import HostsCase
from perfgate.judge.claims.ratio import ReferenceCase
from perfgate.judge.claims.relation import RatioCase
from perfgate.judge.claims.same import ChangeCase
from perfgate.judge.scenario_case import FaultCase, PlainCase
from perfgate.judge.units_case import ClaimCase
from perfgate.model import Verdict
from tests.harness.run_gate import HANG_BOUND_S, ROOT

CASES = (PlainCase, FaultCase, RatioCase, HostsCase, ClaimCase, ChangeCase, ReferenceCase)
GUARD = """
from perfgate.judge.claim import Ruling, guard
from perfgate.judge.scenario_case import PlainCase


@guard(15, PlainCase)
def it_is_full_moon(case: PlainCase, ruling: Ruling) -> Ruling | None:
    return ruling.taken_back("full moon")
"""
CLAIM = """
from perfgate.judge.scenario_case import claim
from perfgate.model import Judgement, Verdict


@claim(40)
def at_most_ten_rounds(case, judged):
    red = len(case.measurement.rounds) > 10
    return [Judgement(verdict=Verdict.REGRESSED if red else Verdict.PASS, metric="rounds", reason="x" * red)]
"""
JUDGED = """
from perfgate.judge.scenario_case import judge_scenario
from tests.harness.build import measurement, profile, threshold

HELD = profile(threshold("records_per_s", 1000.0), threshold("broker_cpu_us_per_record", 50.0))
for rates in ([1000.0, 1001.0, 999.0], [1000.0] * 11):
    outcome = judge_scenario(measurement(rates), HELD)
    print(outcome.verdict.value, *outcome.reasons, sep=": ")
"""


@pytest.fixture
def judge_folder(tmp_path: Path) -> Path:
    """The folder of a judge of its own, in a copy of the package."""
    shutil.copytree(ROOT / "perfgate", tmp_path / "perfgate")
    return tmp_path / "perfgate" / "judge"


def judged_by(judge_folder: Path) -> list[str]:
    """Return what this judge says of three steady rounds, and of eleven; else the last line of its error."""
    done = subprocess.run(
        [sys.executable, "-c", JUDGED],
        cwd=judge_folder.parents[1],  # the copy comes before what is installed
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANG_BOUND_S,
    )
    return done.stdout.splitlines() if not done.returncode else done.stderr.splitlines()[-1:]


def test_a_guard_is_one_file(judge_folder: Path) -> None:
    assert judged_by(judge_folder) == ["PASS", "PASS"]
    (judge_folder / "guards" / "moon.py").write_text(GUARD)
    assert judged_by(judge_folder) == ["INCONCLUSIVE: full moon"] * 2


def test_a_claim_is_one_file(judge_folder: Path) -> None:
    (judge_folder / "claims" / "rounds.py").write_text(CLAIM)
    assert judged_by(judge_folder) == ["PASS", "REGRESSED: rounds: x"]


def test_a_judge_without_its_guards_gives_no_verdict(judge_folder: Path) -> None:
    for guards in (judge_folder / "guards").glob("*.py"):
        if guards.name != "__init__.py":
            guards.unlink()
    (error,) = judged_by(judge_folder)
    assert error.startswith("perfgate.judge.claim.JudgeError: perfgate.judge.guards has no modules")


@pytest.mark.parametrize("case", CASES)
def test_no_two_guards_of_a_case_have_the_same_place(case: type[Case]) -> None:
    found = guards_of(case)
    assert found
    assert [one.place for one in found] == sorted({one.place for one in found})
    assert all(one.check.__doc__ for one in found), "each says what it is there for"


class Told(Case):
    """A case whose test says this verdict."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict

    def test(self) -> Ruling:
        return Ruling(verdict=self.verdict)

    def in_spite(self, ruling: Ruling) -> Ruling:
        return ruling if ruling.verdict is not Verdict.INVALID else Ruling(verdict=Verdict.REGRESSED, in_spite=True)


def test_the_first_guard_before_the_test_that_objects_ends_it() -> None:
    class OfThisTest(Told):
        """Has the guards of this test alone."""

    asked = []

    @guard(-2, OfThisTest)
    def first(_case: Told, _ruling: Ruling) -> Ruling | None:
        asked.append("first")
        return Ruling(verdict=Verdict.BROKEN)

    @guard(-1, OfThisTest)
    def second(_case: Told, _ruling: Ruling) -> Ruling | None:
        asked.append("second")
        return None

    found = judge(OfThisTest(Verdict.PASS))
    assert (found.verdict, found.guard, asked) == (Verdict.BROKEN, "first", ["first"])


def test_what_a_guard_leaves_undecided_is_red_where_a_loss_remains() -> None:
    class OfThisTest(Told):
        """Has the guards of this test alone."""

    @guard(1, OfThisTest)
    def takes_back(_case: Told, ruling: Ruling) -> Ruling | None:
        return Ruling(verdict=Verdict.INVALID) if ruling.verdict.green else None

    assert judge(OfThisTest(Verdict.PASS)).verdict is Verdict.REGRESSED
    assert judge(OfThisTest(Verdict.BROKEN)).verdict is Verdict.BROKEN


def test_a_guard_that_fails_is_no_verdict() -> None:
    class OfThisTest(Told):
        """Has the guards of this test alone."""

    @guard(1, OfThisTest)
    def has_a_bug(_case: Told, _ruling: Ruling) -> Ruling | None:
        raise ZeroDivisionError

    with pytest.raises(JudgeError, match="the guard has_a_bug has failed: ZeroDivisionError"):
        judge(OfThisTest(Verdict.PASS))


def test_the_worst_of_several_decides() -> None:
    assert worst([Verdict.PASS, Verdict.REGRESSED, Verdict.INVALID]) is Verdict.REGRESSED
    assert worst([Verdict.MISSING, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE
