"""Folders of an agent's own: of its Dask worker, and where its generators write their journals.

Whoever comes later can tell what is left.

An agent that is killed leaves its folder behind. It holds a lock on the folder, which ends with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "kafka-perf-gate-agent-"


class AgentFolder:
    """A new folder in the folder for temporary files (TMPDIR)."""

    def __init__(self) -> None:
        """Raises OSError when there is no room for it, say."""
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            with contextlib.suppress(FileNotFoundError, BlockingIOError):  # another agent takes it for left over
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self.path.stat()
                except OSError:
                    os.close(self._lock)
                    raise
                return

    def delete(self) -> None:
        """Delete it, and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def delete_left_over() -> None:
    """Delete the folders of this user's agents that have ended. Raises OSError without a folder for temporary files."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another agent deletes it too
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
