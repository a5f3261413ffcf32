"""chrony's word on this machine's wall clock: reader of `chronyc -c tracking`, where there is one."""

from __future__ import annotations

import math
import subprocess

from perfgate.model.hosts import TimeService

COMMAND = ("chronyc", "-c", "tracking")
ANSWER_S = 2.0
FIELDS = 14
"""Reference (number, name), stratum, its time, system time, last and RMS offset, frequency, residual frequency, skew,
root delay, root dispersion, update interval, leap status: chronyc(1), "tracking", in the order of its report."""
NOT_SYNCHRONISED = "Not synchronised"


def time_service() -> TimeService | None:
    """Return what chrony says; None where there is none, or it does not answer within ANSWER_S."""
    try:
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=ANSWER_S, check=True)
        return parse_tracking(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def parse_tracking(text: str) -> TimeService:
    """Return what a line of `chronyc -c tracking` says. Raises ValueError for anything else."""
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
