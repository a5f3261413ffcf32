"""The scenarios' figures as Allure's own metrics: with trends over the reports that share a history.

Allure 3 reads them from ``*-perf.json`` among the results, and what they are called from its configuration.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from perfgate.model import metric_info
from perfgate.report.history import SHOWN, is_sound


def write_metrics(folder: Path, document: Mapping[str, Any]) -> None:
    """Write the figures of a run.json beside its Allure results; those of scenarios that came to none are left out."""
    at_ms = datetime.fromisoformat(document["started"]).timestamp() * 1e3
    found = [
        {"id": f"{document['run_id']}/{key}", "key": key, "value": value, "start": at_ms, "stop": at_ms}
        for key, _, _, value in _figures(document)
    ]
    (folder / f"{uuid.uuid4()}-perf.json").write_text(json.dumps(found))


def performance_config(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Allure's configuration says of these metrics: title, unit, direction, and their family as group."""
    metrics, groups = {}, {}
    for key, entry, name, _ in _figures(document):
        info, family = metric_info(name), entry["family"]
        assert info is not None
        title = f"{entry['name']}: {info.label}"
        metrics[key] = {"title": title, "unit": info.unit, "better": info.better, "group": family}
        groups[family] = {"title": family}
    return {"groups": groups, "metrics": metrics}


def _figures(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str, float]]:
    """Give each figure's key, its scenario's entry, the metric's name, and its value."""
    for entry in document["scenarios"]:
        for name in SHOWN:
            if name in entry["metrics"] and is_sound(entry):
                yield f"{entry['name']}.{name}", entry, name, entry["metrics"][name]["value"]
