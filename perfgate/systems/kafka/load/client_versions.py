"""Other versions of the Kafka client than the suite's own, for a comparison: fetched once, each in a folder of its own.

What it takes is the registry that pip is set up for. A generator process puts the folder first on its path, and fails
when it has loaded a library from elsewhere.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from perfgate.host.cache import cache_dir

PACKAGE = "confluent-kafka"
INSTALL_TIMEOUT_S = 300


def folder_of(wanted: str) -> Path:
    """Return the folder that holds this version, once it :func:`cannot_have` no reason against it."""
    return cache_dir() / "clients" / f"{PACKAGE}-{wanted}-{sys.implementation.cache_tag}"


@cache
def cannot_have(wanted: str) -> str | None:
    """Fetch this version if it is not here yet; return why it cannot be had, or None when it can."""
    folder = folder_of(wanted)
    if folder.is_dir():
        return None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".part-") as scratch:
        into = Path(scratch) / folder.name
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "--target", str(into), f"{PACKAGE}=={wanted}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{PACKAGE} {wanted} could not be fetched: {error}"
        if done.returncode:
            words = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")] or [done.stderr.strip()]
            return f"{PACKAGE} {wanted} could not be fetched: {words[-1].removeprefix('ERROR: ')}"
        try:
            into.rename(folder)
        except OSError:  # another run was faster
            if not folder.is_dir():
                raise
    return None
