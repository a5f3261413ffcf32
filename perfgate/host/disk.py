"""Room on a disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from perfgate.model.errors import ConfigurationError


def check_disk(needed: float, folder: Path) -> None:
    """Raise ConfigurationError when `folder` has too little room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ConfigurationError(
            f"too little disk: the run can write {needed / 1e9:.1f} GB at a time, {folder} has {free / 1e9:.1f} GB "
            "free; free some, set TMPDIR to a larger disk (embedded target), or shorten the rounds with --window"
        )
