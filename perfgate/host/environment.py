"""Facts of machine and software: stored with every run, and matched against the profiles' facts."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import perfgate
from perfgate.model.measured import TimeService

ROOT = Path(__file__).parents[2]
NAMED = 'name = "kafka-perf-gate"'
"""In pyproject.toml of a checkout of this project."""
CPUINFO = Path("/proc/cpuinfo")
IMPLEMENTER, PART = "CPU implementer", "CPU part"
NAMES = ("model name", "cpu model", "cpu", "uarch")
"""Fields with a processor's name on x86, MIPS, POWER and RISC-V, in the order in which they are looked for."""
CHRONY = ("chronyc", "-c", "tracking")
ANSWER_S = 2.0
FIELDS = 14
"""Reference (number, name), stratum, its time, system time, last and RMS offset, frequency, residual frequency, skew,
root delay, root dispersion, update interval, leap status: chronyc(1), "tracking", in the order of its report."""
NOT_SYNCHRONISED = "Not synchronised"


def environment_facts() -> dict[str, object]:
    import confluent_kafka  # only a measuring run asks for its machine: a replay has recorded facts
    import psutil

    cpuinfo = CPUINFO.read_text(errors="replace") if CPUINFO.exists() else ""
    return {
        "cpu_model": cpu_model(cpuinfo, platform.machine()),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_mib": psutil.virtual_memory().total >> 20,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "confluent_kafka": version("confluent-kafka"),
        "librdkafka": confluent_kafka.libversion()[0],
        "pulsar_client": version("pulsar-client"),
        "commit": commit(),
    }


def cpu_model(cpuinfo: str, machine: str) -> str:
    """The processor's name, from the text of /proc/cpuinfo; `machine`, as uname prints it, where that has none.

    ARM's kernels print no name, or the architecture's alone ("ARMv8 Processor rev 1"), which any two ARM machines
    share: there it is the implementer and the part of its cores (registers: MIDR_EL1), in hexadecimal.
    """
    fields: dict[str, dict[str, None]] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if value.strip():
            fields.setdefault(name.strip(), {})[value.strip()] = None
    if IMPLEMENTER in fields:
        makers, parts = (" + ".join(sorted(fields.get(name, {"unknown": None}))) for name in (IMPLEMENTER, PART))
        return f"{machine} implementer {makers} part {parts}"
    return next((next(iter(fields[name])) for name in NAMES if name in fields), machine)


def of_checkout(root: Path = ROOT) -> bool:
    """Whether the package lies in a checkout of this project, not in an environment, wherever that may be."""
    try:
        return NAMED in (root / "pyproject.toml").read_text()
    except OSError:
        return False


def commit(root: Path = ROOT) -> str:
    """The checkout's commit, with a hash of changes to tracked files; of an installed package version and hash."""
    try:
        if of_checkout(root) and not _git(root, "rev-parse", "--show-cdup").strip():  # it is the repository's top
            described = _git(root, "describe", "--always", "--abbrev=12", "--exclude=*").decode().strip()
            changes = _git(root, "diff", "--no-ext-diff", "HEAD")
            return f"{described}-dirty-{hashlib.sha256(changes).hexdigest()[:8]}" if changes else described
    except (OSError, subprocess.SubprocessError):
        pass  # it was unpacked without its history, or git is not here
    return f"{perfgate.__version__}-{_digest_of(root / 'perfgate')}"


def _digest_of(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts):
        digest.update(f"{path.relative_to(package)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def _git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, timeout=10, check=True).stdout


def time_service(within_s: float = ANSWER_S) -> TimeService | None:
    """The state of the wall clock as chrony reports it; None without chrony, or without an answer in time."""
    try:
        done = subprocess.run(CHRONY, capture_output=True, text=True, timeout=within_s, check=True)
        return parse_tracking(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def parse_tracking(text: str) -> TimeService:
    """Read a line of `chronyc -c tracking`. Raises ValueError for anything else."""
    fields = text.strip().split(",")
    if len(fields) != FIELDS:
        raise ValueError(f"{FIELDS} fields were expected of chronyc, not {text!r}")
    offset_s, root_delay_s, root_dispersion_s = (float(fields[n]) for n in (4, 10, 11))
    if not all(map(math.isfinite, (offset_s, root_delay_s, root_dispersion_s))):
        raise ValueError(f"chronyc gave no number: {text!r}")
    synchronised = fields[-1] != NOT_SYNCHRONISED
    bound_s = abs(offset_s) + root_dispersion_s + root_delay_s / 2
    return TimeService(
        stratum=int(fields[2]),
        synchronised=synchronised,
        offset_ms=offset_s * 1e3,
        root_delay_ms=root_delay_s * 1e3,
        root_dispersion_ms=root_dispersion_s * 1e3,
        bound_ms=bound_s * 1e3 if synchronised else None,
    )
