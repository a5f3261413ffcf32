"""Java's AOT caches of Pulsar's roles: one each, recorded by the first node of a role where there is none.

With them a cluster of 4.0.8 was ready after 32 instead of 52 s, and took 25,000 messages/s of one client after 15 s
instead of 16,600 (2 cores with other work beside, load 9 to 11).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from perfgate.host.aot import RECORDED_WITHIN_S, recording_path

LOOK_EVERY_S = 0.2


class AotCaches:
    """Which options a node starts with: to use its role's cache, to record it, or none."""

    def __init__(self, paths: Mapping[str, Path | None]) -> None:
        """`paths` of the caches by role; None where there can be none, or none is wanted."""
        self._paths = paths
        self._recording: dict[str, tuple[int, Path]] = {}
        """By role: the node that records, and its file."""

    def options(self, role: str, node: int) -> list[str]:
        """Return the options of this node."""
        path = self._paths.get(role)
        if path is None:
            return []
        if path.exists():
            return [f"-XX:AOTCache={path}"]
        if role in self._recording:
            return []
        self._recording[role] = node, recording_path(path)
        return [f"-XX:AOTCacheOutput={self._recording[role][1]}"]

    @property
    def used(self) -> bool:
        """Whether nodes start with caches, and none of them records."""
        return any(self._paths.values()) and not self._recording

    @property
    def recording(self) -> Mapping[str, int]:
        """Return the nodes that record, by role."""
        return {role: node for role, (node, _) in self._recording.items()}

    def keep(self, end: Callable[[int], None], status: Callable[[int], int | None]) -> None:
        """End the nodes that record (`end` asks one to), and keep the caches of those that end in good order.

        `status`: a node's exit code, None while it runs. One that takes too long leaves none.
        """
        for node, _ in self._recording.values():
            end(node)
        deadline = time.monotonic() + RECORDED_WITHIN_S
        for role, (node, part) in self._recording.items():
            while (code := status(node)) is None and time.monotonic() < deadline:
                time.sleep(LOOK_EVERY_S)
            if code is not None and code >= 0:  # a JVM that crashed leaves half a cache
                self._keep(role, part)

    def keep_of(self, role: str) -> None:
        """Keep the cache of a process that has ended in good order, if it recorded one."""
        if role in self._recording:
            self._keep(role, self._recording.pop(role)[1])

    def _keep(self, role: str, part: Path) -> None:
        path = self._paths[role]
        if part.exists() and path:
            part.replace(path)

    def delete_drafts(self) -> None:
        """Delete what was recorded and not kept, Java's own draft too."""
        for _, part in self._recording.values():
            for left in part.parent.glob(f"{part.name}*"):
                left.unlink(missing_ok=True)
