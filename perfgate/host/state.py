"""The folder of what must outlast a run: what it does that has to be undone, for the next start to do so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perfgate.model.errors import ConfigurationError


def state_dir() -> Path:
    """Return the folder of what must outlast a run, but is no cache: $XDG_STATE_HOME/kafka-perf-gate."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "kafka-perf-gate"


def own_folder(folder: Path) -> None:
    """Make the folder, or make sure that nobody else could have written there. Raises ConfigurationError."""
    with a_folder_that_works(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if folder.is_symlink() or found.st_uid != os.getuid():
            raise ConfigurationError(
                f"{folder} is a link or another user's: what it holds is acted upon on the brokers; remove it, or set "
                "XDG_STATE_HOME to a folder of your own"
            )
        if found.st_mode & 0o077:
            folder.chmod(0o700)


@contextmanager
def a_folder_that_works(folder: Path) -> Iterator[None]:
    """Turn what the folder's file system refuses into a ConfigurationError; BlockingIOError, of a held lock, stays."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise ConfigurationError(
            f"{folder}: {error.strerror or error}; what a run does to real brokers is noted there, under a lock: set "
            "XDG_STATE_HOME to a local folder of your own"
        ) from error
