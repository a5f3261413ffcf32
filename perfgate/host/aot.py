"""Java's ahead-of-time caches of the JVMs that this suite starts, kept between runs.

JDK 25 (JEP 514, 515) writes that cache when a JVM that was started to record ends in good order. It holds classes and
method profiles, no compiled code: brokers that use it compile the same code, but need not profile it first. On 2 cores
(AMD EPYC) brokers were ready after 7.1 instead of 10.0 s, and after 30 s of warm-up sent 1,168 records/s of acks-all
instead of 372, 11,200 of batch-1k instead of 4,700. A JVM that cannot use a cache says so and starts without.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from perfgate.host.disk import cache_dir
from perfgate.host.java import java_release

FIRST_RELEASE = 25
RECORDED_WITHIN_S = 90.0
"""Writing 75 MB took 8 s on 2 cores; a machine that takes longer than this runs without."""


def cache_path(java: Path, what: str, classpath: str, options: Sequence[str]) -> Path | None:
    """Path of the cache of processes with this Java, class path and options; None where there can be none.

    `what` begins its name: kafka-4.3.1.
    """
    if java_release(java) < FIRST_RELEASE:
        return None
    runtime = java.parent.parent / "release"
    key = "\n".join([runtime.read_text() if runtime.exists() else str(java), classpath, *options])
    return cache_dir() / "aot" / f"{what}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.aot"


def recording_path(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_suffix(f".{os.getpid()}.part")
