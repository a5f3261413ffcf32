"""Quotas by Kafka's own tool: by either of its names, and what it says when it fails."""

import subprocess
from typing import Any

import pytest

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.client import quotas

GONE = "Error: Could not find or load main class\nCaused by: java.lang.ClassNotFoundException: x"


class Tool:
    """Kafka's own tool, which ends with these codes and words, the last of them again and again."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[list[str]] = []

    def __call__(self, command: list[str], _timeout_s: float) -> tuple[int, str]:
        self.asked.append(command)
        found = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(found, Exception):
            raise found
        code, output = found
        return code, output


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    made = Tool()
    monkeypatch.setattr(quotas, "_command", lambda: ("java",))
    monkeypatch.setattr(quotas, "run_in_session", made)
    return made


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
def test_a_quota_is_set_by_the_tool_that_there_is(tool: Tool, answers: list[Any], words: str) -> None:
    tool.answers = answers
    if words:
        with pytest.raises(TargetError, match=words):
            quotas.set_quota("b:1", "kpg-r-a", 5)
    else:
        quotas.set_quota("b:1", "kpg-r-a", 5)
    assert len(tool.asked) == len(answers)
    assert tool.asked[-1][2:] == [
        *("--bootstrap-server", "b:1", "--alter", "--entity-type", "clients", "--entity-name", "kpg-r-a"),
        *("--add-config", "producer_byte_rate=5"),
    ]


def test_a_quota_that_is_not_there_is_removed_all_the_same(tool: Tool) -> None:
    """A run that was killed between its note and the tool left a note of which every start would have failed."""
    tool.answers = [(1, "Error while executing config command ... Invalid config(s): producer_byte_rate")]
    quotas.set_quota("b:1", "kpg-r-a", None)
    assert tool.asked[0][-2:] == ["--delete-config", "producer_byte_rate"]
    with pytest.raises(TargetError, match="Kafka's tool failed"):
        quotas.set_quota("b:1", "kpg-r-a", 5)


@pytest.mark.parametrize(("protocol", "can"), [("PLAINTEXT", True), ("SSL", False), ("sasl_ssl", False)])
def test_where_clients_log_in_none_is_set(tool: Tool, protocol: str, can: bool) -> None:
    assert (quotas.cannot_set((("security.protocol", protocol),)) == "") is can
