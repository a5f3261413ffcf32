"""Faults of real brokers by commands: what is run, how long it may take, and what is said when it fails."""

import time
from pathlib import Path

import pytest

from fixtures import secret as secrets_module
from fixtures.errors import TargetError
from fixtures.secret import MASK, Secret
from fixtures.target.command_faults import CommandFaults, lacking

BROKERS = {1: "kafka-1.example:9093", 2: "kafka-2.example:9094"}


def faults(begun: list[str], timeout_s: float = 5.0, **commands: str) -> CommandFaults:
    named = {name.replace("_", "-"): command for name, command in commands.items()}
    return CommandFaults(named, timeout_s, BROKERS, lambda: begun.append("begun"))


def test_the_command_is_run_for_the_broker(tmp_path: Path) -> None:
    begun: list[str] = []
    faults(begun, cut_off=f"echo {{host}} {{port}} {{broker}} > {tmp_path}/told").cut_off(2)
    assert (tmp_path / "told").read_text() == "kafka-2.example 9094 2\n"
    assert begun == ["begun"]


def test_a_command_that_fails_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets_module, "_known", set())
    password = Secret("s3cr3t-word")
    with pytest.raises(TargetError) as caught:
        faults([], stop=f"echo no route to {{host}} with {password!s}; exit 3").stop(1)
    message = str(caught.value)
    assert "[faults] stop for broker 1 ended with 3" in message
    assert "no route to kafka-1.example" in message
    assert password not in message
    assert MASK in message


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(TargetError, match=r"did not end within 0\.5 s"):
        faults([], 0.5, kill="sleep 60; true").kill(1)
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    ("kind", "commands", "words"),
    [
        ("kill-leader", {"kill": "x", "start": "x"}, None),
        ("kill-leader", {"stop": "x", "start": "x"}, "states no [faults] kill"),
        ("cut-off", {}, "states no [faults] cut-off and heal"),
        ("client-crash", {}, None),
        ("kill-controller", {"kill": "x"}, "cannot be brought about on real brokers"),
    ],
)
def test_what_a_fault_lacks_is_named(kind: str, commands: dict[str, str], words: str | None) -> None:
    found = lacking(kind, commands)
    assert found is None if words is None else words in str(found)
