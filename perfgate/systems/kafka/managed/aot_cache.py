"""Java's ahead-of-time cache: what one broker's JVM loaded and profiled, kept so that later ones warm up sooner.

JDK 25 (JEP 514, 515) writes it when a JVM that was started to record ends in good order. It holds classes and method
profiles, no compiled code: brokers that use it compile the same code, but need not watch it for so long first. On 2
cores (AMD EPYC) brokers were ready after 7.1 instead of 10.0 s, and after 30 s of warm-up sent 1,168 records/s of
acks-all instead of 372, 11,200 of batch-1k instead of 4,700. A JVM that cannot use a cache says so and does without.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from perfgate.host.cache import cache_dir
from perfgate.systems.kafka.java import KafkaJars

FIRST_RELEASE = 25
RECORDED_WITHIN_S = 90.0
"""Writing 75 MB took 8 s on 2 cores; a machine that takes longer than this does without."""


@cache
def java_release(java: Path) -> int:
    """Return the feature release of this Java, 25 for 25.0.1; 0 when it does not say."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found[1]) if found else 0


def cache_path(java: Path, jars: KafkaJars, options: Sequence[str]) -> Path | None:
    """Return where the cache of brokers with this Java, class path and options lies; None where there can be none."""
    if java_release(java) < FIRST_RELEASE:
        return None
    runtime = java.parent.parent / "release"
    key = "\n".join([runtime.read_text() if runtime.exists() else str(java), jars.classpath, *options])
    return cache_dir() / "aot" / f"kafka-{jars.version}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.aot"


def recording_path(path: Path) -> Path:
    """Return where this run may record the cache that is to lie at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_suffix(f".{os.getpid()}.part")
