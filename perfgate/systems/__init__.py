"""The systems under test, a folder each."""

from collections.abc import Callable
from typing import NoReturn

from perfgate.model.errors import TargetError


def unable(words: str) -> Callable[..., NoReturn]:
    """Return a method of what a system, or brokers of others, cannot do: it raises TargetError with these words."""

    def raises(*_: object) -> NoReturn:
        raise TargetError(words)

    return raises
