"""A round's history in one compressed file: written once, judged again by --replay."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from perfgate.measure.faults.analysis import analyse
from perfgate.measure.faults.written import Written
from perfgate.model import Measurement, Round
from perfgate.model.errors import ConfigurationError
from perfgate.model.nodes import LoggedChange, State

ROWS = ("sends", "outcomes", "receipts", "accepts")


def keep(path: Path, written: Written) -> None:
    """Write the history to `path` (.npz)."""
    facts = {
        "start": written.start,
        "rate": written.rate,
        "partitions": written.partitions,
        "end": written.end,
        "groups": written.groups,
        "end_offsets": list(written.end_offsets),
        "marks": [list(mark) for mark in written.marks],
        "states": [asdict(state) for state in written.states],
        "cpu": list(written.cpu),
        "memory": list(written.memory),
        "changes": None if written.changes is None else [asdict(change) for change in written.changes],
        **{name: len(getattr(written, name)) for name in ROWS},
    }
    arrays = {f"{name}-{n}": rows for name in ROWS for n, rows in enumerate(getattr(written, name))}
    np.savez_compressed(path, facts=np.array(json.dumps(facts)), log=written.log, **arrays)


def recall(path: Path) -> Written:
    """Return a history that was kept. Raises ConfigurationError when the file is none."""
    try:
        with np.load(path) as kept:
            facts = json.loads(str(kept["facts"]))
            rows = {name: [kept[f"{name}-{n}"] for n in range(facts.pop(name, 0))] for name in ROWS}
            log = kept["log"]
    except (OSError, KeyError, ValueError) as error:
        raise ConfigurationError(f"{path}: not the history of a round ({error})") from error
    return Written(
        **{
            **facts,
            "marks": [(at, words) for at, words in facts["marks"]],
            "states": [_state(state) for state in facts["states"]],
            "changes": facts["changes"] and [LoggedChange(**change) for change in facts["changes"]],
            **{name: [(at, used) for at, used in facts[name]] for name in ("cpu", "memory") if name in facts},
            "log": log,
            **rows,
        }
    )


MAY_LACK = (
    "recovery_s",
    "rate_recovery_s",
    "catch_up_s",
    "lag_drained_s",
    "full_isr_s",
    "preferred_leaders_s",
    "controller_changes",
    "unclean_elections",
    "others_receive_outage_s.max",
)
"""What an analysis tells by leaving it out: the recorded figure is of an earlier one."""


def judged_again(measurement: Measurement, folder: Path) -> Measurement:
    """Return the measurement with every round whose history lies in `folder` analysed anew."""
    return replace(measurement, rounds=tuple(_analysed(measurement, r, folder) for r in measurement.rounds))


def history_path(folder: Path, row: str, index: int) -> Path:
    """Return where the history of a scenario's round is kept."""
    return folder / f"{row}-{index}.npz"


def _analysed(measurement: Measurement, r: Round, folder: Path) -> Round:
    path = history_path(folder, measurement.scenario.name, r.index)
    if r.failover is None or not path.exists():
        return r
    failover, metrics, accounting = analyse(recall(path))
    kept = {name: value for name, value in r.metrics.items() if name not in MAY_LACK}
    failover = replace(failover, session_s=r.failover.session_s)
    return replace(r, failover=failover, metrics={**kept, **metrics}, accounting=accounting)


def _state(entry: dict[str, object]) -> State:
    def tuples(value: object) -> object:
        return tuple(tuples(item) for item in value) if isinstance(value, list) else value

    return State(**{name: tuples(value) for name, value in entry.items()})  # type: ignore[arg-type]  # as asdict wrote it
