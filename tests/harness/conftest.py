"""The suite's own tests leave no run behind (no results folder, no Allure results), and a warning fails them."""

import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest

from perfgate.fixtures.run_config import LEAVES_RESULTS
from tests.harness.build.canary import Canary
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


def pytest_collection_finish() -> None:
    """Leave thousands of tests out of every search for garbage: half of its time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def own_temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let runs keep their brokers' data in a folder of this session: others on this machine come and go."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("tmp")
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder


@pytest.fixture
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def modules_more(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType, Path], None]:
    """Return a function that lets a package have the modules of a folder too, until the test ends."""
    return lambda package, folder: monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all code of this process: no wait takes time, and none has to be made shorter for a test."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made.monotonic)
    monkeypatch.setattr(time, "sleep", made.sleep)
    return made


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> Canary:
    """The canary of all measurements."""
    made = Canary()
    for module in ("rounds", "campaign"):
        monkeypatch.setattr(f"perfgate.measure.{module}.read_canary", made)
    return made


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that gives this machine so many processors."""
    return lambda number: monkeypatch.setattr(os, "cpu_count", lambda: number)


@pytest.fixture
def admin_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], object]], None]:
    """Return a function that lets each admin client of Kafka be what its function returns for servers (host:port)."""

    def given(made: Callable[[str], object]) -> None:
        patched = "perfgate.systems.kafka.client.topics.AdminClient"
        monkeypatch.setattr(patched, lambda settings: made(settings["bootstrap.servers"]))

    return given


@pytest.fixture
def admin_by(admin_at: Callable[[Callable[[str], object]], None]) -> Callable[[Callable[[], object]], None]:
    """Return a function that lets every admin client of Kafka be what the function that it is given returns."""
    return lambda made: admin_at(lambda _servers: made())


@pytest.fixture
def generators_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., object]], None]:
    """Return a function that lets the engine start its generators by the function that it is given."""
    return partial(monkeypatch.setattr, "perfgate.load.engine.Generators")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up generators whose brokers answer nothing at once."""
    monkeypatch.setattr("perfgate.load.processes.FIRST_DONE_TIMEOUT_S", 0.1)


@pytest.fixture
def no_other_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the secrets of other tests: they would be masked in this one's messages."""
    monkeypatch.setattr("perfgate.model.secret._known", set())
    monkeypatch.setattr("perfgate.model.secret._taken", {})
