"""The suite's own tests leave no run behind (no results folder, no Allure results), and a warning fails them."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from perfgate.fixtures.run_config import LEAVES_RESULTS
from tests.harness.build.clock import Clock

# How long an example takes says more about the machine than about the code. CI draws the same examples each time, so
# that it is red by what was changed; new ones are drawn everywhere else.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.register_profile("suite-ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Say so before the reports look."""
    config.stash[LEAVES_RESULTS] = False
    config.addinivalue_line("filterwarnings", "error")
    # docker's client leaves its (Unix) socket open when no engine answers.
    config.addinivalue_line("filterwarnings", r"ignore:unclosed <socket\.socket fd=\d+, family=1,:ResourceWarning")


@pytest.fixture(scope="session", autouse=True)
def own_temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let runs keep their brokers' data in a folder of this session: others on this machine come and go."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("tmp")
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all code of this process: no wait takes time, and none has to be made shorter for a test."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made.monotonic)
    monkeypatch.setattr(time, "sleep", made.sleep)
    return made
