"""Another version of the client: fetched once, put before the installed one, and proved to be loaded."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfgate.fixtures.change_file import load_change
from perfgate.load.transport import ROOT, WORKER
from perfgate.model import Change
from perfgate.model.changes import changed, read_value
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.load.librdkafka import KafkaInstructions, LibrdkafkaDriver, cannot_have, folder_of
from perfgate.systems.kafka.load.official import inexpressible
from tests.harness.build import scenario
from tests.harness.build.generators import SPEC

OLDER = "2.11.0"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cannot_have.cache_clear()
    return tmp_path


def test_the_change_names_a_release() -> None:
    change = load_change(ROOT / "changes" / "client-2.11.toml")
    row = changed(scenario(), change)
    assert row.client_version == OLDER
    assert not change.concerns_brokers, "both sides are measured on the same brokers"
    assert "Java clients" in str(inexpressible(row))
    for wrong in ("2.11", 2, "latest", "2.11.0; rm"):
        with pytest.raises(ConfigurationError, match=r"is no release of confluent-kafka; write it as in 2\.11\.0"):
            read_value("client.version", wrong)


def test_a_release_that_cannot_be_had_is_a_reason(cache: Path) -> None:
    row = changed(scenario(), Change(name="x", changes=(("client.version", "0.0.1"),)))
    reason = str(LibrdkafkaDriver().cannot(row))
    assert reason.startswith("confluent-kafka 0.0.1 could not be fetched: ")
    assert "\n" not in reason
    assert list((cache / "kafka-perf-gate" / "clients").iterdir()) == [], "nothing half-fetched is left"


def test_a_cache_that_cannot_be_written_is_a_reason(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ended with a traceback."""
    (cache / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "file"))
    assert (cannot_have(OLDER) or "").startswith(f"confluent-kafka {OLDER} could not be fetched: ")


def test_what_is_here_is_not_fetched_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert cannot_have(OLDER) is not None, "from no registry there is none to be had"
    cannot_have.cache_clear()
    folder_of(OLDER).mkdir(parents=True)
    assert cannot_have(OLDER) is None


def worker_says(request: dict[str, Any]) -> dict[str, Any]:
    """Return the first thing that a generator process says to this request; there is no broker."""
    with subprocess.Popen(
        [sys.executable, *WORKER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(json.dumps(request) + "\n")
        worker.stdin.flush()
        return dict(json.loads(worker.stdout.readline()))


def test_a_library_from_elsewhere_is_a_failure(tmp_path: Path) -> None:
    (request,) = KafkaInstructions().producers_of(SPEC).values()
    found = worker_says({**request, "client_path": str(tmp_path)})
    assert f"the client in {tmp_path} was asked for, " in found["reason"]


@pytest.mark.slow
def test_the_older_release_is_fetched_and_loaded() -> None:
    """Needs a registry: that of the machine's pip."""
    cannot_have.cache_clear()
    assert cannot_have(OLDER) is None
    script = (
        f"import sys; sys.path.insert(0, {str(folder_of(OLDER))!r}); import confluent_kafka; "
        "import perfgate.systems.kafka.load.clients; print(confluent_kafka.libversion()[0])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == OLDER, done.stderr
    row = replace(SPEC.scenario, client_version=OLDER)
    (request,) = KafkaInstructions().producers_of(replace(SPEC, scenario=row)).values()
    assert request["client_path"] == str(folder_of(OLDER))
