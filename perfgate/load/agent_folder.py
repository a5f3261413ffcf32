"""The folder of an agent's own: where its generators write their journals; whoever comes later can tell what is left.

An agent that is killed leaves its folder behind. It holds a lock on the folder, which ends with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "perfgate-journals-"


class AgentFolder:
    """A new folder in the folder for temporary files (TMPDIR); what no living agent holds any more is deleted first."""

    def __init__(self) -> None:
        """Raises OSError when there is no room for it, say."""
        parent = Path(tempfile.gettempdir())
        delete_left_over(parent)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            with contextlib.suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self.path.exists():
                    return
            os.close(self._lock)  # another agent took it for left over, before it was locked

    def delete(self) -> None:
        """Delete it, and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def delete_left_over(parent: Path) -> None:
    """Delete the folders of agents of this user that have ended."""
    for path in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another agent deletes it too
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
