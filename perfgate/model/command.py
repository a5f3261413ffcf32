"""The gate's own command as messages word it: so that it works where it is read."""

from __future__ import annotations

import shlex
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

PROGRAM = "kafka-perf-gate"
"""Of the distribution too."""


def command_line(name: str, *words: str) -> str:
    """Return the command line of a subcommand with these words, each quoted where a shell needs it."""
    return f"{program()} {shlex.join([name, *words])}"


def without(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the words without those that give any of the options another value: --rounds=5, where --rounds follows."""
    beginnings = tuple(f"{option}=" for option in options if option.startswith("--"))
    return [word for word in words if not word.startswith(beginnings)]


def installing(extra: str) -> str:
    """Return the command that installs what an extra of the package brings."""
    return pip_install(f"{PROGRAM}[{extra}]")


def pip_install(*requirements: str) -> str:
    return f"{_from_here(Path(sys.executable))} -m pip install {shlex.join(requirements)}"


def program() -> str:
    """Return the call of this Python's program: its name where the PATH has it, else its path."""
    own = Path(sysconfig.get_path("scripts"), PROGRAM)
    if not own.exists():  # a checkout that was not installed
        return f"{_from_here(Path(sys.executable))} -m perfgate"
    on_path = shutil.which(PROGRAM)
    return PROGRAM if on_path and own.samefile(on_path) else _from_here(own)


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
