"""Folders of this user on the disk, and the room that a run needs there."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from perfgate.model.errors import ConfigurationError

NAME = "kafka-perf-gate"


def home() -> Path:
    """The user's home folder. Raises ConfigurationError where there is none: a bare id in a container, without HOME."""
    try:
        return Path.home()
    except RuntimeError:
        raise ConfigurationError("this user has no home folder: set HOME to a folder of this user's own") from None


def cache_dir() -> Path:
    """The folder for what is fetched or learnt and kept between runs: $XDG_CACHE_HOME/kafka-perf-gate."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / NAME


def state_dir() -> Path:
    """The folder for state that must outlast a run: $XDG_STATE_HOME/kafka-perf-gate."""
    return Path(os.environ.get("XDG_STATE_HOME") or home() / ".local" / "state") / NAME


def nearest(path: Path) -> Path:
    """The path, or its nearest parent that exists. Raises OSError where a folder may not be entered."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return nearest(path.absolute().parent)
    return path


def is_there(path: Path) -> bool:
    """Whether something is at a path that a person states; not where it cannot be one, or this user may not look."""
    with suppress(OSError):
        return path.exists()
    return False


def check_disk(needed: float, folder: Path) -> None:
    """Raise ConfigurationError when `folder` has less room than `needed` bytes."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ConfigurationError(
            f"too little disk: the run can write {needed / 1e9:.1f} GB at a time, {folder} has {free / 1e9:.1f} GB "
            "free; free some, set TMPDIR to a larger disk (embedded target), or shorten the rounds with --window"
        )
