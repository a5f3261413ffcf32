"""The folder in which runs note what they change on real brokers: its files, locks and failures."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO
from unittest.mock import Mock

import pytest

from perfgate.model import TopicSpec
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.attached.manifest import Away, Manifest, Occupied, leftovers, occupy
from perfgate.systems.kafka.attached.cluster import ExternalCluster
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.external import ExternalTarget, KafkaCleaner
from tests.harness.build.real_brokers import FILE, Broker, left_in


def test_a_second_cluster_of_a_run_does_not_hide_what_the_first_left(tmp_path: Path) -> None:
    first = Manifest(tmp_path, cluster_id="c", run_id="r")
    first.takes(1, "kafka-1:9093", "start")
    first.close()
    second = Manifest(tmp_path, cluster_id="c", run_id="r")
    second.plans("kpg-x")
    second.gone("kpg-x")
    second.close()
    (left,) = leftovers(tmp_path, "c")
    assert left.away == {1: Away("kafka-1:9093", "start")}


def test_a_file_with_two_headers_is_read_whole(tmp_path: Path) -> None:
    header = {"run": "r", "cluster": "c", "host": "gone"}
    lines = [header, {"away": "1", "address": "kafka-1:9093", "back": "start"}, header, {"topic": "kpg-x", "id": "i"}]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (left,) = leftovers(tmp_path, "c")
    assert (left.away, left.topics) == ({1: Away("kafka-1:9093", "start")}, {"kpg-x": "i"})


def test_a_run_is_known_to_live_by_a_lock_of_the_kernel(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from perfgate.systems.attached.manifest import *\n"
        "m = Manifest(Path(sys.argv[1]), cluster_id='c', run_id='r'); m.plans('kpg-x')\n"
        "lock = occupy(Path(sys.argv[1]), 'd'); print('there', flush=True); time.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "there\n"
        assert list(leftovers(tmp_path, "c")) == []
        with pytest.raises(Occupied):
            occupy(tmp_path, "d")
    finally:
        other.kill()
        other.communicate()
    (left,) = leftovers(tmp_path, "c")
    assert left.topics == {"kpg-x": ""}
    occupy(tmp_path, "d").close()
    assert tmp_path.stat().st_mode & 0o077 == 0


Enter = Callable[..., TextIO]


@pytest.fixture
def enter(tmp_path: Path, broker: Broker) -> Enter:
    """Return a function that lets a run with these permissions onto cluster c, and returns the file of its lock."""
    (tmp_path / "t.toml").write_text(f"{FILE}[broker-config]\nallowed = true\n")
    described = load_target(tmp_path / "t.toml", lambda stores: {})

    def onto(*, insists: bool = False, may_change: bool = False, may_take_away: bool = False) -> TextIO:
        run = ExternalTarget(
            described,
            run_id="r",
            manifests=tmp_path / "m",
            note=print,
            parallel_is_fine=insists,
            broker_config_allowed=may_change,
            faults_allowed=may_take_away,
        )
        run._cluster_id = "c"
        run._enter(broker.admin)
        assert run._occupied is not None
        return run._occupied

    return onto


@pytest.mark.parametrize(
    ("insists", "may_change", "words"),
    [
        (False, True, "both would measure each other"),
        (True, False, ""),
        (True, True, "leave --allow-broker-config out"),
    ],
)
def test_a_run_beside_another_one_changes_no_setting(enter: Enter, insists: bool, may_change: bool, words: str) -> None:
    """Both had set num.io.threads: each left it to the other in the end, and the first one's value stayed for good."""
    with enter(), pytest.raises(ConfigurationError, match=words) if words else nullcontext():
        enter(insists=insists, may_change=may_change).close()
    enter(insists=insists, may_change=may_change).close()  # the other one has ended


def test_a_run_beside_another_one_takes_no_broker_away(enter: Enter) -> None:
    """Both found the cluster well, and each took a broker: a broker that stands still is missed only seconds later."""
    with enter(may_take_away=True):
        with pytest.raises(ConfigurationError, match="leave --allow-faults out"):
            enter(insists=True, may_take_away=True)
        enter(insists=True).close()
    enter(insists=True, may_take_away=True).close()  # the other one has ended


@pytest.mark.parametrize(
    ("insists", "may_change"), [(False, False), (False, True), (True, True)], ids=["plainly", "to change", "both"]
)
def test_a_run_that_began_beside_another_is_one_too_once_that_has_ended(
    enter: Enter, insists: bool, may_change: bool
) -> None:
    """A third one then began, which did not insist: twice the load, and one was measured with the other's setting."""
    first = enter()
    with enter(insists=True) as second, enter(insists=True) as third:
        first.close()
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="another run of this machine is on the cluster"):
                enter(insists=insists, may_change=may_change)
            second.close()
        third.close()
        enter(insists=insists, may_change=may_change).close()
    with enter(insists=True), pytest.raises(ConfigurationError, match="another run of this machine"):
        enter()


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="is a link or another user's"):
        Manifest(tmp_path / "link", cluster_id="c", run_id="r")
    (tmp_path / "m").mkdir()
    (tmp_path / "elsewhere" / "x.jsonl").write_text('{"run": "x", "cluster": "c", "host": "o"}')
    (tmp_path / "m" / "x.jsonl").symlink_to(tmp_path / "elsewhere" / "x.jsonl")
    assert list(leftovers(tmp_path / "m", "c")) == []


def full(manifest: Manifest) -> None:
    """Let the disk under the manifest be full from now on."""
    manifest.journal.file.close()
    manifest.journal.file = Path("/dev/full").open("w")  # noqa: SIM115


def test_what_cannot_be_noted_is_not_done(tmp_path: Path, cluster: Callable[..., ExternalCluster]) -> None:
    """A full disk was a traceback for each scenario, and red of brokers that were well."""
    made, ran = cluster(f'kill = "touch {tmp_path}/ran"\nstart = "true"'), tmp_path / "ran"
    topics = made.topics()
    full(made._manifest)
    does: Callable[[], object]
    for does in (
        lambda: topics.create("kpg-x", TopicSpec(partitions=1, replication_factor=1)),
        lambda: made._note("1", "num.io.threads", None, "8", "2"),
        lambda: made.faults.do("kill", 1),
    ):
        with pytest.raises(TargetError, match=r"r\.jsonl: No space left on device; .*: nothing more is done to them"):
            does()
    assert not ran.exists()
    assert made.close() == []
    assert left_in(tmp_path) == [], "nothing was done that the next start would have to undo"


def test_a_full_disk_keeps_nothing_from_being_put_back(
    tmp_path: Path, cluster: Callable[..., ExternalCluster], broker: Broker
) -> None:
    made = cluster(f'kill = "true"\nstart = "touch {tmp_path}/up-{{broker}}"', {"num.io.threads": 16})
    made.faults.do("kill", 1)
    made.topics()._manifest.plans("kpg-x")
    made.topics()._made["kpg-x"] = 1
    full(made._manifest)
    assert made.close() == []
    assert (tmp_path / "up-1").exists()
    assert set(broker.values.values()) == {None}
    assert not made.topics()._made
    assert left_in(tmp_path) == []


def test_notes_that_cannot_be_removed_are_named_and_change_nothing_at_the_next_start(
    tmp_path: Path, cluster: Callable[..., ExternalCluster], broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a file system that had become read-only an error hid what had been measured, and all had been put back."""
    made = cluster(config={"num.io.threads": 16})
    path = made._manifest.journal.path
    noted = path.read_text()
    full(made._manifest)
    path.unlink()
    path.mkdir()  # a folder is not removed as a file is, whoever asks
    assert made.close() == []
    assert f"note: all is put back, but the notes of it cannot be removed (Is a directory): remove {path}" in (
        capsys.readouterr().out
    )
    path.rmdir()
    path.write_text(noted)
    (left,) = leftovers(tmp_path / "m", "c")
    assert len(left.configs) == len(broker.values) == 2
    assert KafkaCleaner(Mock(), Mock()).put_back(broker.admin, [left]) == []
    assert set(broker.values.values()) == {None}


def test_a_folder_without_locks_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("perfgate.host.journal.fcntl.flock", no_locks)
    with pytest.raises(ConfigurationError, match=r"No locks available.*XDG_STATE_HOME"):
        occupy(tmp_path, "c")


NO_FOLDER = Path("/proc/none/state")
"""Root cannot make it either."""


@pytest.mark.parametrize(
    "does",
    [
        lambda: occupy(NO_FOLDER, "c"),
        lambda: Manifest(NO_FOLDER, cluster_id="c", run_id="r"),
        lambda: list(leftovers(NO_FOLDER, "c")),
    ],
)
def test_a_folder_that_cannot_be_made_is_one_message(does: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match=rf"{NO_FOLDER}: No such file or directory;.*XDG_STATE_HOME"):
        does()


def test_a_lock_that_cannot_be_opened_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "c.lock").mkdir()
    with pytest.raises(ConfigurationError, match=r"Is a directory;.*XDG_STATE_HOME"):
        occupy(tmp_path, "c")
