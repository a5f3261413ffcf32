"""The end of a run as one value, and the exit code that follows from it. Pure: nothing else decides one."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from perfgate.judge.phrases import some_of
from perfgate.model import Effect, Verdict
from perfgate.model.errors import ConfigurationError
from perfgate.model.judged import ExitCode

Result = Verdict | Effect
NO_TESTS = 5
"""Pytest's status where no test was collected."""
OF_A_WHOLE_SESSION = (ExitCode.GREEN, ExitCode.RED, NO_TESTS)
PYTESTS_OWN_ERROR = 3
ENDED_OTHERWISE = (ExitCode.ENDED_EARLY, 4)
"""Pytest's statuses of a session that was interrupted, or of wrong usage."""
OFTEN = 3
"""A scenario that is undecided in this many runs in a row is named in the first lines of every output."""
MOST_RUNS = 1000


class TestEnd(enum.Enum):
    """How pytest reports that a test ended. ERROR: before or after the test itself. OTHER: as a plugin calls it."""

    __test__ = False  # it is no test

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"
    OTHER = "other"
    NONE = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class UndecidedPolicy:
    """The exit code for undecided scenarios (--undecided): 6, unless stated.

    `pass`: 0. `fail`: 1. `fails_after`: 1 once a scenario was undecided in this many runs in a row.
    """

    text: str = ""
    fails_after: int | None = None

    @property
    def passes(self) -> bool:
        return self.text == "pass"


def undecided_policy(text: str) -> UndecidedPolicy:
    """The policy that --undecided states. Raises ConfigurationError that names the legal values."""
    if text in ("pass", "fail"):
        return UndecidedPolicy(text=text)
    after = re.fullmatch(r"fail-after:([1-9][0-9]*)", text)
    if after is None or int(after[1]) > MOST_RUNS:
        raise ConfigurationError(
            f"--undecided {text!r} must be pass, fail or fail-after:N, with N from 1 to {MOST_RUNS} runs in a row"
        )
    return UndecidedPolicy(text=text, fails_after=int(after[1]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A scenario, relation or comparison that has an outcome, and how its test ended."""

    name: str
    result: Result
    test: TestEnd


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEnd:
    """All facts that decide the exit code of a run.

    `lacking`: what was selected and has neither an outcome nor the gate's reason for not running. `errors`: failures
    without an outcome, or before or after a test. `status`: pytest's. `unhealthy`, `unfinished`: why the target, or the
    recorded run, was not whole. `missing_is_red`: the `profile` was named. `in_a_row`: in how many runs in a row each
    scenario was undecided. `recorded`: run.json was written. `reports_sound`: no report met a bug.
    """

    judged: tuple[Judged, ...] = ()
    lacking: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    status: int = ExitCode.GREEN
    left_behind: bool = False
    unhealthy: str = ""
    broken_beside: tuple[str, ...] = ()
    unfinished: str = ""
    missing_is_red: bool = False
    profile: str = ""
    by_reference: bool = False
    policy: UndecidedPolicy = UndecidedPolicy()
    in_a_row: Mapping[str, int] = field(default_factory=dict)
    recorded: bool = True
    reports_sound: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """The exit code of a run; `cause`: why, in words, where no verdict shows it."""

    code: int
    cause: str = ""


def test_end_of(result: Result, policy: UndecidedPolicy, *, missing_is_red: bool) -> TestEnd:
    if result.green:
        return TestEnd.PASSED
    if result.red:
        return TestEnd.FAILED
    if result is Verdict.MISSING:
        return TestEnd.FAILED if missing_is_red else TestEnd.SKIPPED
    return TestEnd.SKIPPED if policy.passes else TestEnd.FAILED


def ending(end: RunEnd) -> Ending:
    """Green needs every outcome to be green, or MISSING where that may be, and every test to end as it asks for."""
    if end.left_behind:
        return Ending(code=ExitCode.LEFT_BEHIND)
    if end.status in ENDED_OTHERWISE:
        return Ending(code=end.status if end.recorded else ExitCode.NOT_RECORDED)
    if any(judged.result.red for judged in end.judged):
        return Ending(code=ExitCode.RED)
    if end.broken_beside:
        return Ending(code=ExitCode.RED, cause=end.broken_beside[0])
    missing = [judged.name for judged in end.judged if judged.result is Verdict.MISSING]
    if missing and end.missing_is_red:
        profile = f"the named profile {end.profile}".rstrip()
        return Ending(code=ExitCode.RED, cause=f"{profile} has no limits for {some_of(missing)}")
    failed = [judged for judged in end.judged if judged.test in (TestEnd.FAILED, TestEnd.ERROR)]
    wrong = [judged.name for judged in failed if _ended_otherwise(judged, end)]
    if errors := list(dict.fromkeys([*end.errors, *wrong])):
        return Ending(code=ExitCode.ERROR, cause=f"{some_of(errors)} ended in an error, see above")
    if end.status == PYTESTS_OWN_ERROR:
        return Ending(code=ExitCode.ERROR, cause="pytest met an internal error, see above")
    if end.unhealthy:
        cause = f"measuring stopped because the target became unhealthy: {end.unhealthy}"
        return Ending(code=ExitCode.UNHEALTHY, cause=cause)
    if not end.recorded:
        return Ending(code=ExitCode.NOT_RECORDED)
    by_policy = _by_policy(end)
    unreported = by_policy.code == ExitCode.GREEN and not end.reports_sound
    return replace(by_policy, code=ExitCode.NOT_RECORDED) if unreported else by_policy


def _by_policy(end: RunEnd) -> Ending:
    """The ending of what is not red, by the policy for what is undecided."""
    unsure, unknown = [judged for judged in end.judged if is_undecided(judged.result)], _unknown(end)
    if not (unsure or unknown):
        return Ending(code=ExitCode.GREEN)
    policy = end.policy
    if policy.text == "fail":
        return Ending(code=ExitCode.RED, cause=f"undecided, which --undecided={policy.text} makes red: {_why(end)}")
    often = {judged.name: end.in_a_row.get(judged.name, 1) for judged in unsure}
    late = [name for name, runs in often.items() if policy.fails_after and runs >= policy.fails_after]
    if late:
        cause = f"{_in_a_row(late[0], often[late[0]])}, which --undecided={policy.text} makes red"
        return Ending(code=ExitCode.RED, cause=cause)
    if unknown:
        return Ending(code=ExitCode.UNDECIDED, cause=unknown)
    if policy.passes:
        cause = f"undecided, which --undecided={policy.text} lets pass: {_why(end)}"
        return Ending(code=ExitCode.GREEN, cause=cause)
    return Ending(code=ExitCode.UNDECIDED)


def _why(end: RunEnd) -> str:
    names = [f"{judged.name} {judged.result.value}" for judged in end.judged if is_undecided(judged.result)]
    return some_of(names) if names else _unknown(end)


def _unknown(end: RunEnd) -> str:
    """What is not known of the run although no verdict shows it."""
    if end.lacking:
        more = f", and {len(end.lacking) - 1} more" if len(end.lacking) > 1 else ""
        return f"{end.lacking[0]}{more}"
    if others := [judged for judged in end.judged if _ended_otherwise(judged, end)]:
        return (
            f"{others[0].name} is {others[0].result.value}, and its test ended otherwise ({others[0].test.value}): "
            "something outside the gate changed it"
        )
    if all(judged.result is Verdict.MISSING for judged in end.judged):
        return "nothing was held against anything"
    if end.unfinished:
        return f"the recorded run was not whole: {end.unfinished}"
    if end.by_reference and (missing := [judged.name for judged in end.judged if judged.result is Verdict.MISSING]):
        return f"{some_of(missing)} MISSING: held against no ratio of the reference"
    # An outcome that made a test fail explains pytest's status of failed tests.
    explained = end.status != ExitCode.RED or any(judged.test is TestEnd.FAILED for judged in end.judged)
    if end.status not in OF_A_WHOLE_SESSION or not explained:
        return f"pytest ended with {end.status}, which no scenario explains"
    return ""


def _ended_otherwise(judged: Judged, end: RunEnd) -> bool:
    """Whether a test ended otherwise than its result asks for."""
    return judged.test is not test_end_of(judged.result, end.policy, missing_is_red=end.missing_is_red)


def is_undecided(result: Result) -> bool:
    return not (result.green or result.red or result is Verdict.MISSING)


def often_undecided(in_a_row: Mapping[str, int]) -> list[str]:
    """A sentence for each scenario or relation that was undecided in OFTEN runs in a row, worst first."""
    by_runs = sorted(in_a_row.items(), key=lambda item: -item[1])
    return [_in_a_row(name, runs) for name, runs in by_runs if runs >= OFTEN]


def _in_a_row(name: str, runs: int) -> str:
    return f"{name} was undecided in {runs} runs in a row" if runs > 1 else f"{name} was undecided"
