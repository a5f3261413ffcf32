"""The command in messages is one that works where they are read."""

import ast
import re
import sys
import sysconfig
from pathlib import Path

import pytest

from perfgate.model.command import PROGRAM, command_line, installing, program
from tests.harness.run_gate import ROOT


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an environment's programs, with the gate's; the working folder has the environment in it."""
    folder = tmp_path / "my venv" / "bin"
    folder.mkdir(parents=True)
    executable(folder / PROGRAM)
    monkeypatch.setattr(sysconfig, "get_path", {"scripts": str(folder)}.get)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    return folder


def executable(path: Path) -> None:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_it_has_the_name_that_the_path_finds_and_else_a_path(
    scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert program() == f"'my venv/bin/{PROGRAM}'"
    monkeypatch.chdir(scripts.parent)
    assert program() == f"bin/{PROGRAM}"
    (tmp_path / "links").mkdir()
    monkeypatch.chdir(tmp_path / "links")
    assert program() == f"'{scripts}/{PROGRAM}'"
    (tmp_path / "links" / PROGRAM).symlink_to(scripts / PROGRAM)
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert program() == PROGRAM, "as pipx has it"


def test_a_program_of_another_environment_is_not_named(
    scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / PROGRAM)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == f"'my venv/bin/{PROGRAM}'"


def test_a_checkout_that_is_not_installed_is_called_as_a_module(scripts: Path) -> None:
    (scripts / PROGRAM).unlink()
    assert program() == "'my venv/bin/python' -m perfgate"


def test_words_are_quoted_for_a_shell(scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(scripts))
    assert command_line("gate", "--target", "my own.toml", "-k", "a or b") == (
        f"{PROGRAM} gate --target 'my own.toml' -k 'a or b'"
    )
    assert installing("hosts") == f"'my venv/bin/python' -m pip install '{PROGRAM}[hosts]'"


TARGETS = re.findall(r"^targets := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].replace(" ", "|")
NOT_HERE = re.compile(rf"(?<!in a checkout: )\bmake (?:$|(?:{TARGETS})\b)|python3? -m |\bARGS=")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "perfgate").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_text_of_the_package_names_a_command_of_a_checkout(path: Path) -> None:
    """Where the package is installed there is no Makefile."""
    texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    assert not [text for text in texts if isinstance(text, str) and NOT_HERE.search(text)]
