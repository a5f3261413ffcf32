"""The performance gate: loads a system, measures it, judges what was measured. Imports without pytest.

What is promised of it is `load_run` and the version: docs/stability.md.

PYTEST_DONT_REWRITE: it asserts nothing, and the command has it before pytest could.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfgate.report.loaded import Run

__version__ = "0.1.0"


def load_run(path: str | PathLike[str]) -> Run:
    """Return what a run.json says, of any schema that is read; `path`: the file, or the folder of its run.

    Raises perfgate.model.errors.ConfigurationError, in one sentence, for a file that is none or is damaged.
    """
    from perfgate.report.loaded import loaded  # only who reads a run pays for the engine's imports

    return loaded(Path(path))
