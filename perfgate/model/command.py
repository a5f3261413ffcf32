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
    """Return the words without those that give one of the options another value: --rounds=5, where --rounds follows."""
    return [word for word in words if not any(word.startswith(f"{one}=") for one in options if one.startswith("--"))]


def installing(extra: str) -> str:
    """Return the command that installs what an extra of the package brings."""
    return pip_install(f"{PROGRAM}[{extra}]")


def pip_install(*requirements: str) -> str:
    """Return the command that installs these for this Python."""
    return f"{_from_here(Path(sys.executable))} -m pip install {shlex.join(requirements)}"


def program() -> str:
    """Return how this Python's program is called: by its name where the PATH has it, else by its path."""
    own = Path(sysconfig.get_path("scripts"), PROGRAM)
    if not own.exists():  # a checkout that was not installed
        return f"{_from_here(Path(sys.executable))} -m perfgate"
    found = shutil.which(PROGRAM)
    return PROGRAM if found and own.samefile(found) else _from_here(own)


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
