"""A bound on the CPU of a process of this machine, by a Linux control group (version 1 or 2)."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from perfgate.model.errors import ConfigurationError

GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 20_000
"""Short, so that a bounded broker pauses for milliseconds, not for the 100 ms of Linux's default period."""


def limit_cpu(pid: int, cores: float) -> Path:
    """Bound all threads of the process to so many cores; return the control group's folder.

    The folder has to be removed once the process has ended. Raises ConfigurationError where the suite may set no bound.
    """
    one = (GROUPS / "cpu" / "cpu.shares").exists()
    folder = (GROUPS / "cpu" if one else GROUPS) / f"kafka-perf-gate-{secrets.token_hex(6)}"
    quota = max(1000, round(cores * PERIOD_US))
    try:
        folder.mkdir()
        if one:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        (folder / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        raise ConfigurationError(
            f"a bound on brokers' CPU (--broker-cpus, cluster.cpus) needs the right to make control groups ({error}); "
            "run as root, or leave it out"
        ) from error
    return folder
