"""Engine of every verdict on measurements: guards before a claim's test, the test, guards after it. Pure.

The first objection before the test ends it; each guard after it may take its verdict back or add a note. An undecided
case is red all the same where more is lost than all doubts explain: no guard hides a catastrophe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from perfgate.model import Judgement, Outcome, Verdict
from perfgate.model.judged import severity


class JudgeError(Exception):
    """A guard has a bug: no verdict, and never green."""


UNDECIDED = (Verdict.INCONCLUSIVE, Verdict.INVALID, Verdict.MISSING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """A verdict with its judgements and reasons. `guard`: the last guard that changed it, if any."""

    verdict: Verdict
    judgements: tuple[Judgement, ...] = ()
    reasons: tuple[str, ...] = ()
    guard: str = ""
    in_spite: bool = False
    """Red although guards objected: a loss remains without all that doubts explain."""

    def outcome(self, name: str, **more: Any) -> Outcome:
        return Outcome(name=name, verdict=self.verdict, judgements=self.judgements, reasons=self.reasons, **more)

    def taken_back(self, *reasons: str) -> Ruling:
        return replace(self, verdict=Verdict.INCONCLUSIVE, reasons=(*reasons, *self.reasons))

    def noting(self, *notes: str) -> Ruling:
        return replace(self, reasons=(*self.reasons, *notes))


def ruled(verdict: Verdict, *reasons: str) -> Ruling:
    return Ruling(verdict=verdict, reasons=reasons)


def notes_on(judgements: Iterable[Judgement]) -> list[str]:
    return [f"{judgement.metric}: {judgement.reason}" for judgement in judgements if judgement.reason]


class Case(ABC):
    """A claim, or the claims of a scenario, with the series that it is about."""

    @abstractmethod
    def test(self) -> Ruling:
        """The ruling by the figures alone."""

    def in_spite(self, ruling: Ruling) -> Ruling:
        """The ruling, red where a loss remains without all that doubts explain."""
        return ruling


Check = Callable[[Any, Ruling], Ruling | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """One reason against a verdict of a kind of case; it is checked before the test (`place` below 0) or after it."""

    check: Check
    place: int
    case: type


_GUARDS: dict[str, Guard] = {}


def guard(place: int, case: type) -> Callable[[Check], Check]:
    """Register a guard of this kind of case. It gets the ruling so far, and returns another or None."""

    def register(check: Check) -> Check:
        _GUARDS[f"{check.__module__}.{check.__qualname__}"] = Guard(check=check, place=place, case=case)
        return check

    return register


def guards_of(case: type[Case]) -> tuple[Guard, ...]:
    load_modules("perfgate.judge.guards")
    of_case = (registered for registered in _GUARDS.values() if issubclass(case, registered.case))
    return tuple(sorted(of_case, key=lambda registered: registered.place))


@cache
def load_modules(package: str) -> None:
    """Import every module of a package, so that what they register is known. Raises JudgeError where there is none."""
    modules = [module.name for module in iter_modules(import_module(package).__path__)]
    if not modules:  # without its guards the judge would be green too often
        raise JudgeError(f"{package} has no modules: this installation is not whole")
    for name in modules:
        import_module(f"{package}.{name}")


def judge(case: Case) -> Ruling:
    """Judge a case. Raises JudgeError, which is never green, where a guard has a bug."""
    guards = guards_of(type(case))
    for before in (registered for registered in guards if registered.place < 0):
        if objection := _checked(before, case, ruled(Verdict.INCONCLUSIVE)):
            return case.in_spite(objection)
    ruling = case.test()
    for after in (registered for registered in guards if registered.place >= 0):
        ruling = _checked(after, case, ruling) or ruling
    return case.in_spite(ruling)


def _checked(registered: Guard, case: Case, ruling: Ruling) -> Ruling | None:
    name = registered.check.__name__
    try:
        changed = registered.check(case, ruling)
    except Exception as error:
        raise JudgeError(f"the guard {name} has failed: {error!r}") from error
    return replace(changed, guard=name) if changed else None


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several claims' verdicts: red stays red next to what does not count."""
    return min(verdicts, key=severity)
