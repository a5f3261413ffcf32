"""Facts of machine and software: stored with every run, and matched against the profiles' facts."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from perfgate.host.cpu_model import cpu_model

ROOT = Path(__file__).parents[2]


def environment_facts() -> dict[str, object]:
    """Return the environment part of run.json."""
    import confluent_kafka  # only what measures asks for its machine: a replay has the recorded one's facts
    import psutil

    return {
        "cpu_model": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_mib": psutil.virtual_memory().total >> 20,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "confluent_kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "commit": _commit(),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    return cpu_model(cpuinfo.read_text(errors="replace") if cpuinfo.exists() else "", platform.machine())


def _commit() -> str:
    """Return the checkout's commit; "unknown" outside a checkout.

    Where files that git knows differ from it, `-dirty-` and a hash of how: a run is not continued by other code.
    """
    try:
        commit = _git("describe", "--always", "--abbrev=12", "--exclude=*").decode().strip()
        changes = _git("diff", "--no-ext-diff", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    dirty = f"-dirty-{hashlib.sha256(changes).hexdigest()[:8]}" if changes else ""
    return f"{commit}{dirty}" if commit else "unknown"


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, timeout=10, check=True)
    return done.stdout
