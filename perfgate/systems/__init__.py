"""The systems under test, a folder each."""

from collections.abc import Callable
from typing import NoReturn

from perfgate.model.errors import TargetError


def unable(words: str) -> Callable[..., NoReturn]:
    """Return a method that raises TargetError with these words: a system, or real brokers, cannot do it."""

    def raises(*_: object) -> NoReturn:
        raise TargetError(words)

    return raises
