"""One judge: guards and claims in one order, one file each; a guard's bug is no verdict; doubts hide no catastrophe."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfgate.judge import claim as engine
from perfgate.judge import claims, guards, scenario_case
from perfgate.judge.claim import Case, JudgeError, Ruling, guard, guards_of, judge, worst
from perfgate.judge.claims.more_hosts import HostsCase
from perfgate.judge.claims.ratio import ReferenceCase
from perfgate.judge.claims.relation import RatioCase
from perfgate.judge.claims.same import ChangeCase
from perfgate.judge.scenario_case import FaultCase, PlainCase, judge_scenario
from perfgate.judge.units_case import ClaimCase
from perfgate.model import Verdict
from tests.harness.build import measurement, profile, threshold

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
STEADY = measurement([1000.0, 1001.0, 999.0])
HELD = profile(threshold("records_per_s", 1000.0), threshold("broker_cpu_us_per_record", 50.0))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder whose modules are guards and claims as well; what they register is gone afterwards."""
    before = set(sys.modules)
    monkeypatch.setattr(engine, "_GUARDS", dict(engine._GUARDS))
    monkeypatch.setattr(scenario_case, "_CLAIMS", dict(scenario_case._CLAIMS))
    for package, name in ((guards, "guards"), (claims, "claims")):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / name)])
    engine.load_modules.cache_clear()
    yield tmp_path
    engine.load_modules.cache_clear()
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_guard_is_one_file(folder: Path) -> None:
    assert judge_scenario(STEADY, HELD).verdict is Verdict.PASS
    (folder / "guards" / "moon.py").write_text(GUARD)
    engine.load_modules.cache_clear()
    outcome = judge_scenario(STEADY, HELD)
    assert (outcome.verdict, outcome.reasons) == (Verdict.INCONCLUSIVE, ("full moon",))


def test_a_claim_is_one_file(folder: Path) -> None:
    (folder / "claims" / "rounds.py").write_text(CLAIM)
    engine.load_modules.cache_clear()
    assert judge_scenario(STEADY, HELD).judgements[-1].metric == "rounds"
    many = judge_scenario(measurement([1000.0] * 11), HELD)
    assert (many.verdict, many.reasons) == (Verdict.REGRESSED, ("rounds: x",))


def test_a_judge_without_its_guards_gives_no_verdict(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "none").mkdir()
    monkeypatch.setattr(guards, "__path__", [str(folder / "none")])
    with pytest.raises(JudgeError, match="has no modules"):
        judge_scenario(STEADY, HELD)


@pytest.mark.parametrize("case", CASES)
def test_no_two_guards_of_a_case_have_the_same_place(case: type[Case]) -> None:
    judge_scenario(STEADY, HELD)
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


@pytest.fixture
def none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no guards of that case but those of the test."""
    monkeypatch.setattr(engine, "_GUARDS", {})


@pytest.mark.usefixtures("none")
def test_the_first_guard_before_the_test_that_objects_ends_it() -> None:
    asked = []

    @guard(-2, Told)
    def first(_case: Told, _ruling: Ruling) -> Ruling | None:
        asked.append("first")
        return Ruling(verdict=Verdict.BROKEN)

    @guard(-1, Told)
    def second(_case: Told, _ruling: Ruling) -> Ruling | None:
        asked.append("second")
        return None

    found = judge(Told(Verdict.PASS))
    assert (found.verdict, found.guard, asked) == (Verdict.BROKEN, "first", ["first"])


@pytest.mark.usefixtures("none")
def test_what_a_guard_leaves_undecided_is_red_where_a_loss_remains() -> None:
    @guard(1, Told)
    def takes_back(_case: Told, ruling: Ruling) -> Ruling | None:
        return Ruling(verdict=Verdict.INVALID) if ruling.verdict.green else None

    assert judge(Told(Verdict.PASS)).verdict is Verdict.REGRESSED
    assert judge(Told(Verdict.BROKEN)).verdict is Verdict.BROKEN


@pytest.mark.usefixtures("none")
def test_a_guard_that_fails_is_no_verdict() -> None:
    @guard(1, Told)
    def has_a_bug(_case: Told, _ruling: Ruling) -> Ruling | None:
        raise ZeroDivisionError

    with pytest.raises(JudgeError, match="the guard has_a_bug has failed: ZeroDivisionError"):
        judge(Told(Verdict.PASS))


def test_the_worst_of_several_decides() -> None:
    assert worst([Verdict.PASS, Verdict.REGRESSED, Verdict.INVALID]) is Verdict.REGRESSED
    assert worst([Verdict.MISSING, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE
