"""Table of what each role of a system's nodes used, for the terminal; empty where all nodes are brokers."""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.judge.phrases import number
from perfgate.model import Measurement
from perfgate.model.metrics import ROLES
from perfgate.model.summary import metric_value

ROLE_COLUMNS = (
    "scenario: cores, MiB of memory, MiB/s to disk",
    *(name.removeprefix("the ") for name in ROLES.values()),
)
FIGURES = ("broker_cpu_cores", "broker_rss_mib", "broker_disk_write_mib_per_s")


def role_rows(measurements: Mapping[str, Measurement]) -> list[tuple[str, ...]]:
    """Return the cells of ROLE_COLUMNS of every scenario whose nodes have roles; a dash where there is no number."""
    rows = []
    for name, measurement in measurements.items():
        values = {role: [metric_value(measurement, f"{stem}.{role}") for stem in FIGURES] for role in ROLES}
        if any(value is not None for found in values.values() for value in found):
            cells = (", ".join("-" if value is None else number(value) for value in found) for found in values.values())
            rows.append((name, *cells))
    return rows
