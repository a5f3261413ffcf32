"""Quotas by Kafka's own tool: by either of its names, and what it says when it fails."""

import pytest

from perfgate.model.errors import TargetError
from perfgate.systems.kafka.client import quotas
from tests.harness.build.java import FakeJava

GONE = "echo 'Error: Could not find or load main class'; echo 'Caused by: java.lang.ClassNotFoundException: x'; exit 1"
DENIED = "echo not authorized; exit 1"


def tool_and_arguments(call: list[str]) -> list[str]:
    """What follows Java's own options."""
    return call[call.index("-cp") + 2 :]


@pytest.mark.parametrize(
    ("answers", "words", "asked"),
    [
        (["echo Completed"], "", 1),
        ([GONE, "echo Completed"], "", 2),
        ([DENIED], "the quota of client kpg-r-a: Kafka's tool failed: not authorized", 1),
        ([GONE], "Kafka's tool failed", 2),
        (["exec sleep 60"], "the quota of client kpg-r-a: .*timed out after 2 seconds", 1),
    ],
)
def test_a_quota_is_set_by_the_tool_that_there_is(
    fake_java: FakeJava, answers: list[str], words: str, asked: int
) -> None:
    fake_java.does(*answers)
    within_s = 2 if "sleep" in answers[0] else 60
    if words:
        with pytest.raises(TargetError, match=words):
            quotas.set_quota("b:1", "kpg-r-a", 5, within_s)
    else:
        quotas.set_quota("b:1", "kpg-r-a", 5, within_s)
    calls = [tool_and_arguments(call) for call in fake_java.asked]
    assert [call[0] for call in calls] == list(quotas.TOOLS[:asked])
    assert calls[-1][1:] == [
        *("--bootstrap-server", "b:1", "--alter", "--entity-type", "clients", "--entity-name", "kpg-r-a"),
        *("--add-config", "producer_byte_rate=5"),
    ]


def test_a_quota_that_is_not_there_is_removed_all_the_same(fake_java: FakeJava) -> None:
    """A run that was killed between its note and the tool left a note of which every start would have failed."""
    fake_java.does("echo 'Error while executing config command ... Invalid config(s): producer_byte_rate'; exit 1")
    quotas.set_quota("b:1", "kpg-r-a", None)
    assert fake_java.asked[0][-2:] == ["--delete-config", "producer_byte_rate"]
    with pytest.raises(TargetError, match="Kafka's tool failed"):
        quotas.set_quota("b:1", "kpg-r-a", 5)


@pytest.mark.usefixtures("fake_java")
@pytest.mark.parametrize(("protocol", "can"), [("PLAINTEXT", True), ("SSL", False), ("sasl_ssl", False)])
def test_where_clients_log_in_none_is_set(protocol: str, can: bool) -> None:
    assert (quotas.cannot_set((("security.protocol", protocol),)) == "") is can
