"""The exit code follows from one value: a table of what each fact makes of it, and what holds of every combination."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.run_end import (
    Judged,
    Result,
    RunEnd,
    TestEnd,
    UndecidedPolicy,
    ending,
    is_undecided,
    often_undecided,
    test_end_of,
    undecided_policy,
)
from perfgate.model import Effect, Verdict
from perfgate.model.errors import ConfigurationError
from perfgate.model.judged import ExitCode

test_end_of.__test__ = False  # type: ignore[attr-defined]  # it is no test
PASS, FAIL = undecided_policy("pass"), undecided_policy("fail")


def judged(found: Result, test: TestEnd | None = None, policy: UndecidedPolicy = UndecidedPolicy()) -> Judged:  # noqa: B008
    """Return an outcome whose test ended as it says, or so."""
    return Judged(name="a", result=found, test=test or test_end_of(found, policy, missing_is_red=False))


GREEN, RED, UNSURE = judged(Verdict.PASS), judged(Verdict.REGRESSED), judged(Verdict.INCONCLUSIVE)
MISSING = judged(Verdict.MISSING)
PASSED, FAILED, SKIPPED = TestEnd.PASSED, TestEnd.FAILED, TestEnd.SKIPPED


@pytest.mark.parametrize(
    ("end", "code", "cause"),
    [
        (RunEnd(judged=(GREEN,)), 0, ""),
        (RunEnd(judged=(GREEN, MISSING)), 0, ""),
        (RunEnd(judged=(judged(Effect.SAME), judged(Effect.FASTER))), 0, ""),
        (RunEnd(judged=(GREEN, RED), status=1), 1, ""),
        (RunEnd(judged=(judged(Verdict.BROKEN),), status=1), 1, ""),
        (RunEnd(judged=(judged(Effect.SLOWER),), status=1), 1, ""),
        (RunEnd(judged=(judged(Verdict.REGRESSED, SKIPPED),)), 1, ""),  # --benchmark-skip, a marker xfail
        (RunEnd(judged=(judged(Verdict.REGRESSED, PASSED),)), 1, ""),
        (RunEnd(judged=(judged(Verdict.REGRESSED, TestEnd.OTHER),)), 1, ""),
        (RunEnd(judged=(judged(Verdict.PASS, SKIPPED),)), 6, "a is PASS, and its test ended otherwise (skipped)"),
        (RunEnd(judged=(judged(Verdict.PASS, TestEnd.OTHER),)), 6, "ended otherwise (other)"),
        (RunEnd(judged=(judged(Verdict.PASS, TestEnd.ERROR),), status=1), 9, "a ended in an error"),
        (RunEnd(judged=(judged(Verdict.PASS, FAILED),), status=1), 9, "a ended in an error"),
        (RunEnd(judged=(GREEN, UNSURE), status=1), 6, ""),
        (RunEnd(judged=(judged(Effect.INVALID),), status=1), 6, ""),
        (RunEnd(judged=(GREEN, UNSURE, RED), status=1), 1, ""),
        (RunEnd(judged=(GREEN,), errors=("b",), status=1), 9, "b ended in an error"),
        (RunEnd(judged=(RED,), errors=("b",), status=1), 1, ""),
        (RunEnd(judged=(UNSURE,), errors=("teardown of a",), status=1), 9, "teardown of a ended in an error"),
        (RunEnd(judged=(GREEN,), lacking=("b: skipped",)), 6, "b: skipped"),
        (RunEnd(judged=(GREEN,), lacking=("b: skipped", "c: left out")), 6, "b: skipped, and 1 more"),
        (RunEnd(), 6, "nothing was held against anything"),
        (RunEnd(judged=(MISSING,)), 6, "nothing was held against anything"),
        (
            RunEnd(judged=(judged(Verdict.MISSING, FAILED), GREEN), missing_is_red=True, profile="p", status=1),
            1,
            "the named profile p has no limits for a",
        ),
        (RunEnd(judged=(judged(Verdict.MISSING, FAILED), RED), missing_is_red=True, profile="p", status=1), 1, ""),
        (
            RunEnd(judged=(judged(Verdict.MISSING, FAILED),), missing_is_red=True, broken_beside=("BROKEN b",)),
            1,
            "BROKEN b",
        ),
        (RunEnd(judged=(GREEN, MISSING), by_reference=True), 6, "a MISSING: held against no ratio of the reference"),
        (RunEnd(judged=(GREEN,), unfinished="it was interrupted"), 6, "was not whole: it was interrupted"),
        (RunEnd(judged=(GREEN,), broken_beside=("BROKEN b beside c",)), 1, "BROKEN b beside c"),
        (RunEnd(judged=(UNSURE,), unhealthy="a broker died", status=1), 8, "became unhealthy: a broker died"),
        (RunEnd(judged=(judged(Verdict.INVALID, SKIPPED),), unhealthy="it died", policy=PASS), 8, "became unhealthy"),
        (RunEnd(judged=(UNSURE, RED), unhealthy="a broker died", status=1), 1, ""),
        (RunEnd(judged=(RED,), left_behind=True, status=1), 7, ""),
        (RunEnd(judged=(GREEN,), status=2), 2, ""),
        (RunEnd(judged=(GREEN,), status=3), 9, "pytest met an internal error"),
        (RunEnd(judged=(RED,), status=3), 1, ""),
        (RunEnd(judged=(GREEN,), status=4), 4, ""),
        (RunEnd(judged=(GREEN,), status=2, recorded=False), 3, ""),
        (RunEnd(judged=(GREEN,), status=1), 6, "pytest ended with 1, which no scenario explains"),
        (RunEnd(judged=(GREEN,), status=17), 6, "pytest ended with 17"),
        (RunEnd(judged=(RED,), status=0), 1, ""),
        (RunEnd(judged=(GREEN,), recorded=False), 3, ""),
        (RunEnd(judged=(UNSURE,), recorded=False, status=1), 3, ""),
        (RunEnd(judged=(RED,), recorded=False, status=1), 1, ""),
        (RunEnd(judged=(GREEN,), reports_sound=False), 3, ""),
        (RunEnd(judged=(RED,), reports_sound=False, status=1), 1, ""),
        (RunEnd(judged=(UNSURE,), reports_sound=False, status=1), 6, ""),
        (RunEnd(judged=(judged(Verdict.INVALID, SKIPPED),), policy=PASS), 0, "--undecided=pass lets pass: a INVALID"),
        (RunEnd(judged=(GREEN,), lacking=("b: skipped",), policy=PASS), 6, "b: skipped"),
        (RunEnd(policy=PASS), 6, "nothing was held against anything"),
        (RunEnd(judged=(UNSURE,), policy=FAIL, status=1), 1, "--undecided=fail makes red: a INCONCLUSIVE"),
        (RunEnd(policy=FAIL), 1, "--undecided=fail makes red: nothing was held against anything"),
        (RunEnd(judged=(GREEN,), policy=FAIL), 0, ""),
    ],
)
def test_what_each_fact_makes_of_the_exit_code(end: RunEnd, code: int, cause: str) -> None:
    found = ending(end)
    assert found.code == code
    assert cause in found.cause if cause else not found.cause


@pytest.mark.parametrize(("runs", "code"), [(1, 6), (2, 6), (3, 1), (40, 1)])
def test_undecided_in_so_many_runs_in_a_row_is_red(runs: int, code: int) -> None:
    end = RunEnd(judged=(GREEN, UNSURE), status=1, policy=undecided_policy("fail-after:3"), in_a_row={"a": runs})
    assert ending(end).code == code
    words = f"a was undecided in {runs} runs in a row, which --undecided=fail-after:3 makes red"
    assert ending(end).cause == (words if code == 1 else "")
    assert ending(replace(end, judged=(GREEN,), status=0)).code == 0, "what is decided now is over"


def test_what_is_often_undecided_is_named_the_oldest_first() -> None:
    assert often_undecided({"a": 2, "b": 3, "c": 5}) == [
        "c was undecided in 5 runs in a row",
        "b was undecided in 3 runs in a row",
    ]


@pytest.mark.parametrize("text", ["", "passes", "fail-after", "fail-after:0", "fail-after:-1", "fail-after:3.5", "3"])
def test_a_wrong_policy_names_the_legal_ones(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"must be pass, fail or fail-after:N"):
        undecided_policy(text)


FOUND = st.sampled_from([*Verdict, *Effect])
NAMES = st.sampled_from("abc")
JUDGED = st.builds(Judged, name=NAMES, result=FOUND, test=st.sampled_from(TestEnd))
WORDS = st.sampled_from(["", "why"])
POLICY = st.sampled_from(["", "pass", "fail", "fail-after:1", "fail-after:3"]).map(
    lambda text: undecided_policy(text) if text else UndecidedPolicy()
)
RUN_END = st.builds(
    RunEnd,
    judged=st.lists(JUDGED, max_size=5).map(tuple),
    lacking=st.lists(WORDS.filter(bool), max_size=2).map(tuple),
    errors=st.lists(WORDS.filter(bool), max_size=1).map(tuple),
    status=st.integers(0, 9),
    left_behind=st.booleans(),
    unhealthy=WORDS,
    broken_beside=st.lists(WORDS.filter(bool), max_size=1).map(tuple),
    unfinished=WORDS,
    missing_is_red=st.booleans(),
    by_reference=st.booleans(),
    policy=POLICY,
    in_a_row=st.dictionaries(NAMES, st.integers(1, 5)),
    recorded=st.booleans(),
    reports_sound=st.booleans(),
)


def as_it_says(end: RunEnd) -> bool:
    return all(one.test is test_end_of(one.result, end.policy, missing_is_red=end.missing_is_red) for one in end.judged)


@given(end=RUN_END)
def test_green_needs_all_of_it(end: RunEnd) -> None:
    if ending(end).code != ExitCode.GREEN:
        return
    assert not any(one.result.red for one in end.judged)
    assert as_it_says(end)
    facts = (end.left_behind, end.unhealthy, end.broken_beside, end.errors, end.lacking, end.unfinished)
    assert not any(facts)
    assert end.recorded
    assert end.reports_sound
    assert any(one.result is not Verdict.MISSING for one in end.judged)
    assert not any(is_undecided(one.result) for one in end.judged) or end.policy.passes
    assert not (end.by_reference and any(one.result is Verdict.MISSING for one in end.judged))


@given(end=RUN_END)
def test_red_needs_something_red(end: RunEnd) -> None:
    """Never for a machine that was the limit alone, unless --undecided asks for it."""
    if ending(end).code != ExitCode.RED or end.policy.text == "fail" or end.policy.fails_after:
        return
    red = any(one.result.red or (one.result is Verdict.MISSING and end.missing_is_red) for one in end.judged)
    assert red or end.broken_beside


@given(end=RUN_END)
def test_a_red_outcome_is_red_whatever_else_there_is(end: RunEnd) -> None:
    if any(one.result.red for one in end.judged):
        ended_otherwise = end.status in (2, 4)
        assert ending(end).code == ExitCode.RED or end.left_behind or ended_otherwise
        assert ending(end).code != ExitCode.GREEN


@given(end=RUN_END, found=FOUND)
def test_an_outcome_more_never_makes_it_greener(end: RunEnd, found: Result) -> None:
    """Where something was judged already: of nothing at all nothing is known."""
    if all(one.result is Verdict.MISSING for one in end.judged):
        return
    order = (
        ExitCode.GREEN,
        ExitCode.NOT_RECORDED,
        ExitCode.UNDECIDED,
        ExitCode.UNHEALTHY,
        ExitCode.ERROR,
        ExitCode.RED,
    )
    more = replace(end, judged=(*end.judged, judged(found, policy=end.policy)))
    before, after = ending(end).code, ending(more).code
    if before in order and after in order and end.recorded:
        assert order.index(ExitCode(after)) >= order.index(ExitCode(before)) or end.status == ExitCode.RED
