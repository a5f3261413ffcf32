"""Quotas by Kafka's own tool: by either of its names, and what it says when it fails."""

import subprocess
from typing import Any

import pytest

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.client import quotas

GONE = "Error: Could not find or load main class\nCaused by: java.lang.ClassNotFoundException: x"


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([(0, "Completed")], ""),
        ([(1, GONE), (0, "Completed")], ""),
        ([(1, "not authorized")], "the quota of client kpg-r-a: Kafka's tool failed: not authorized"),
        ([(1, GONE), (1, GONE)], "Kafka's tool failed"),
        ([subprocess.TimeoutExpired("java", 60)], "the quota of client kpg-r-a: .*timed out after 60 seconds"),
    ],
)
def test_a_quota_is_set_by_the_tool_that_there_is(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], words: str
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], _timeout_s: float) -> tuple[int, str]:
        asked.append(command)
        if isinstance(found := answers[len(asked) - 1], Exception):
            raise found
        code, output = found
        return code, output

    monkeypatch.setattr(quotas, "_command", lambda: ("java",))
    monkeypatch.setattr(quotas, "run_in_session", run)
    if words:
        with pytest.raises(TargetError, match=words):
            quotas.set_quota("b:1", "kpg-r-a", 5)
    else:
        quotas.set_quota("b:1", "kpg-r-a", 5)
    assert len(asked) == len(answers)
    assert asked[-1][2:] == [
        *("--bootstrap-server", "b:1", "--alter", "--entity-type", "clients", "--entity-name", "kpg-r-a"),
        *("--add-config", "producer_byte_rate=5"),
    ]


def test_a_quota_that_is_not_there_is_removed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed between its note and the tool left a note of which every start would have failed."""
    asked: list[list[str]] = []
    gone = "Error while executing config command ... Invalid config(s): producer_byte_rate"

    def run(command: list[str], _timeout_s: float) -> tuple[int, str]:
        asked.append(command)
        return 1, gone

    monkeypatch.setattr(quotas, "_command", lambda: ("java",))
    monkeypatch.setattr(quotas, "run_in_session", run)
    quotas.set_quota("b:1", "kpg-r-a", None)
    assert asked[0][-2:] == ["--delete-config", "producer_byte_rate"]
    with pytest.raises(TargetError, match="Kafka's tool failed"):
        quotas.set_quota("b:1", "kpg-r-a", 5)


@pytest.mark.parametrize(("protocol", "can"), [("PLAINTEXT", True), ("SSL", False), ("sasl_ssl", False)])
def test_where_clients_log_in_none_is_set(monkeypatch: pytest.MonkeyPatch, protocol: str, can: bool) -> None:
    monkeypatch.setattr(quotas, "_command", lambda: ("java",))
    assert (quotas.cannot_set((("security.protocol", protocol),)) == "") is can
