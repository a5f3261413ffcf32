"""Commands of a target file: what may stand in them, and that they go on to their end."""

import errno
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from perfgate.host.session import run_in_session
from perfgate.model.errors import TargetError
from perfgate.systems.attached.command_faults import FaultCommands


@pytest.mark.parametrize(
    "address",
    ["$(touch pwned):9092", "a;b:9092", "-oProxyCommand=x:9092", "kafka 1:9092", "kafka-1:92;x", ":9092", "`x`:1"],
)
def test_what_brokers_call_themselves_is_no_command(address: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no command is run"):
        FaultCommands({"kill": f"cd {tmp_path}; echo {{host}} {{port}}"}, 5).run("kill", 1, address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["kafka-1.example.com:9092", "10.0.0.1:9092", "fe80::1:9092", "kafka_1:9092"])
def test_names_and_addresses_are(address: str, tmp_path: Path) -> None:
    FaultCommands({"kill": f"echo {{host}} > {tmp_path}/host"}, 5).run("kill", 1, address)
    assert (tmp_path / "host").read_text() == f"{address.rpartition(':')[0]}\n"


def test_output_that_is_no_text_and_what_runs_on_behind_a_command_are_no_trouble(tmp_path: Path) -> None:
    assert run_in_session(["/bin/sh", "-c", r"printf '\377\376 words'"], 30) == (0, "\ufffd\ufffd words")
    began = time.monotonic()
    code, _ = run_in_session(["/bin/sh", "-c", f"sleep 300 & echo $! > {tmp_path}/pid"], 120)
    assert code == 0
    assert time.monotonic() - began < 60, "the command had ended: what it left running is not waited for"
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)


def test_a_command_goes_on_to_its_end_where_its_interruption_cannot_be_told(tmp_path: Path) -> None:
    """It was killed half-way: the terminal had been closed, and that one cannot write to it is an error."""

    def tell() -> None:
        raise OSError(errno.EIO, "Input/output error")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    command = f"sleep 0.2; kill -INT $PPID; sleep 0.2; touch {tmp_path}/ended"
    try:
        with pytest.raises(KeyboardInterrupt):
            run_in_session(["/bin/sh", "-c", command], 30, interrupted=tell)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (tmp_path / "ended").exists()


def test_a_full_disk_keeps_no_command_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker stayed down: the first line that its start printed found no room in /tmp, and ended it."""
    monkeypatch.setattr("tempfile.TemporaryFile", partial(Path("/dev/full").open, "wb", buffering=0))
    FaultCommands({"start": f"set -e; echo starting; touch {tmp_path}/up"}, 30).run("start", 1, "kafka-1:9093")
    assert (tmp_path / "up").exists()
    monkeypatch.undo()
    assert run_in_session(["echo", "starting"], 30) == (0, "starting\n"), "and none of the room that was kept for it"
