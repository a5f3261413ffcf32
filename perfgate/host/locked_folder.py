"""Folders of a process's own, of which whoever comes later can tell what is left: an agent's, and of brokers' data.

A process that is killed leaves its folder behind. It holds a lock on the folder, which ends with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "kafka-perf-gate-agent-"


class LockedFolder:
    """A new folder in the folder for temporary files (TMPDIR)."""

    def __init__(self, prefix: str = PREFIX) -> None:
        """Raises OSError when there is no room for it, say."""
        self._lock: int | None = None
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            with contextlib.suppress(FileNotFoundError, BlockingIOError):  # another process takes it for left over
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self.path.stat()
                except (FileNotFoundError, BlockingIOError):
                    os.close(self._lock)
                    raise
                except OSError:
                    pass  # a file system without locks: nobody else gets one either
                return

    def delete(self) -> None:
        """Delete it, and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None


def delete_left_over(prefix: str = PREFIX) -> None:
    """Delete this user's folders whose process has ended. Raises OSError without a folder for temporary files."""
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # another one deletes it too
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
