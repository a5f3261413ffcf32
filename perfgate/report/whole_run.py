"""The run as a whole as a test case of its own: how it ends, what it says, and its Allure result.

What concerns no single scenario (brokers that broke beside one, nothing judged, something left behind) has no test, and
a CI that colours by tests would show green.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from perfgate.model.exit_code import ExitCode
from perfgate.model.secret import redacted
from perfgate.report.allure_results import EPIC
from perfgate.report.markdown import WORDS, word_of

NAME = "the run as a whole"
Status = Literal["passed", "failed", "skipped"]


def status_of(document: Mapping[str, Any]) -> Status:
    """Return how the case ends: failed unless the exit code is 0, and skipped where that is not plain green."""
    if document["exit_code"] != ExitCode.GREEN:
        return "failed"
    return "passed" if word_of(document) == WORDS[ExitCode.GREEN] else "skipped"


def write_allure_result(folder: Path, document: Mapping[str, Any], words: Sequence[str]) -> None:
    """Write the case among the Allure results: once for a run, however often it is written. `words`: its message."""
    key = hashlib.md5(NAME.encode(), usedforsecurity=False).hexdigest()
    ended = int(datetime.fromisoformat(document["finished"]).timestamp() * 1000)
    result = {
        "uuid": document["run_id"],
        "historyId": key,
        "testCaseId": key,
        "fullName": f"gate#{NAME}",
        "name": f"{NAME}: {word_of(document)}",
        "status": status_of(document),
        "statusDetails": {"message": redacted("\n".join(words))},
        "description": redacted("\n\n".join(words)),
        "start": ended,
        "stop": ended,
        "labels": [{"name": "epic", "value": EPIC}, {"name": "feature", "value": NAME}],
        "parameters": [{"name": "exit code", "value": str(document["exit_code"]), "excluded": True}],
        "attachments": [],
        "steps": [],
    }
    (folder / f"{document['run_id']}-result.json").write_text(json.dumps(result), encoding="utf-8")
