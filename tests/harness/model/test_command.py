"""The command in messages is one that works where they are read."""

import ast
import os
import re
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from perfgate.model import command
from perfgate.model.command import PROGRAM, command_line, installing, program
from tests.harness.run_gate import ROOT

SAYS = "import runpy, sys; name, *words = sys.argv[2:]; print(runpy.run_path(sys.argv[1])[name](*words))"
Says = Callable[..., str]


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """The folder of an environment's programs, with the gate's."""
    venv.create(tmp_path / "my venv")
    executable(tmp_path / "my venv" / "bin" / PROGRAM)
    return tmp_path / "my venv" / "bin"


@pytest.fixture
def says(scripts: Path, tmp_path: Path) -> Says:
    """Return a function that gives what a function says of the environment: in this folder, with this PATH."""

    def of(function: Callable[..., str], *words: str, folder: Path = tmp_path, path: Path = Path("/nowhere")) -> str:
        asked: list[str | Path] = [scripts / "python", "-c", SAYS, command.__file__, function.__name__, *words]
        environment = {**os.environ, "PATH": str(path)}
        return subprocess.check_output(asked, cwd=folder, env=environment, text=True).removesuffix("\n")

    return of


def executable(path: Path) -> None:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_it_has_the_name_that_the_path_finds_and_else_a_path(scripts: Path, says: Says, tmp_path: Path) -> None:
    assert says(program) == f"'my venv/bin/{PROGRAM}'"
    assert says(program, folder=scripts.parent) == f"bin/{PROGRAM}"
    (links := tmp_path / "links").mkdir()
    assert says(program, folder=links) == f"'{scripts}/{PROGRAM}'"
    (links / PROGRAM).symlink_to(scripts / PROGRAM)
    assert says(program, path=links) == PROGRAM, "as pipx has it"


def test_a_program_of_another_environment_is_not_named(says: Says, tmp_path: Path) -> None:
    executable(tmp_path / PROGRAM)
    assert says(program, path=tmp_path) == f"'my venv/bin/{PROGRAM}'"


def test_a_checkout_that_is_not_installed_is_called_as_a_module(scripts: Path, says: Says) -> None:
    (scripts / PROGRAM).unlink()
    assert says(program) == "'my venv/bin/python' -m perfgate"


def test_words_are_quoted_for_a_shell(scripts: Path, says: Says) -> None:
    words = "gate", "--target", "my own.toml", "-k", "a or b"
    assert says(command_line, *words, path=scripts) == f"{PROGRAM} gate --target 'my own.toml' -k 'a or b'"
    assert says(installing, "hosts") == f"'my venv/bin/python' -m pip install '{PROGRAM}[hosts]'"


TARGETS = re.findall(r"^targets := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].replace(" ", "|")
NOT_HERE = re.compile(rf"(?<!in a checkout: )\bmake (?:$|(?:{TARGETS})\b)|python3? -m |\bARGS=")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "perfgate").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_text_of_the_package_names_a_command_of_a_checkout(path: Path) -> None:
    """Where the package is installed there is no Makefile."""
    texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    assert not [text for text in texts if isinstance(text, str) and NOT_HERE.search(text)]
