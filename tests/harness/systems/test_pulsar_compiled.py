"""The compiled half of the Pulsar client: compiled once, found again, and its reasons when it cannot be had."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfgate.load.clients import LoadClientError
from perfgate.systems.pulsar.load import native
from perfgate.systems.pulsar.load.slow import Slow, batches


class Commands:
    """In the place of pip and the compiler: notes each command, and makes what it would make."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []
        self.fails: dict[str, str] = {}

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.seen.append(command)
        for word, said in self.fails.items():
            if word in command:
                return subprocess.CompletedProcess(command, 1, "", said)
        if "-o" in command:
            Path(command[command.index("-o") + 1]).write_bytes(b"compiled")
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    found = Commands()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", found)
    native.cannot_have.cache_clear()
    yield found
    native.cannot_have.cache_clear()


def test_it_is_compiled_once(commands: Commands) -> None:
    assert native.cannot_have() is None
    fetched, compiled = commands.seen
    assert "--require-hashes" in fetched
    assert native.target() in compiled
    assert native.place().read_bytes() == b"compiled"
    native.cannot_have.cache_clear()
    assert native.cannot_have() is None
    assert len(commands.seen) == 2
    assert [path.name for path in native.place().parent.iterdir()] == [native.place().name], "the compiler is deleted"


def test_another_source_is_compiled_again(commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = native.place()
    monkeypatch.setattr(native, "SOURCE", tmp_path / "other.c")
    native.SOURCE.write_text("int other;")
    other = native.place()
    monkeypatch.setattr(native, "FLAGS", ("-O3",))
    flags = native.place()
    monkeypatch.setattr(native, "COMPILER", "ziglang==1")
    assert len({before, other, flags, native.place()}) == 4


def test_the_hashes_are_what_pip_is_given(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def look(command: list[str], **rest: Any) -> subprocess.CompletedProcess[str]:
        if "--requirement" in command:
            given.append(Path(command[-1]).read_text())
        return commands(command, **rest)

    monkeypatch.setattr(subprocess, "run", look)
    native.cannot_have()
    assert given[0].startswith("ziglang==")
    assert given[0].count("--hash=sha256:") == len(native.COMPILER_HASHES)


@pytest.mark.parametrize(
    ("word", "said", "reason"),
    [
        (
            "pip",
            "WARNING: Retrying\nERROR: No matching distribution found for ziglang\n",
            f"{native.COMPILER} could not be fetched: No matching distribution found for ziglang",
        ),
        ("cc", "a.c:1: error: no such type\n1 warning\n", "could not be compiled: a.c:1: error: no such type"),
        ("cc", "", "could not be compiled: exit 1"),
    ],
)
def test_the_reason_when_it_cannot_be_had(commands: Commands, word: str, said: str, reason: str) -> None:
    commands.fails[word] = said
    assert (native.cannot_have() or "").endswith(reason)
    assert not native.place().exists()


def test_a_machine_without_pip(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("no python")

    monkeypatch.setattr(subprocess, "run", gone)
    assert native.cannot_have() == f"{native.COMPILER} could not be fetched: no python"


def test_a_cache_that_cannot_be_written(commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ended with a traceback, although the slow client would have done."""
    (tmp_path / "cache").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert "pulsar_batch.c could not be compiled: " in (native.cannot_have() or "")
    assert commands.seen == []


def test_a_python_without_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "PACKAGE", "pulsar-client-that-is-not-there")
    with pytest.raises(LoadClientError, match="is not installed"):
        native.libpulsar()


def test_the_library_of_the_wheel() -> None:
    assert native.libpulsar().is_file()


def test_the_slow_library_is_what_is_left(commands: Commands) -> None:
    commands.fails["pip"] = "ERROR: no network"
    batches.cache_clear()
    try:
        assert isinstance(batches(), Slow)
    finally:
        batches.cache_clear()
