"""The manifest: what a run writes down before it makes it, and what the next start reads of a run that is gone."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.host import journal
from perfgate.host.disk import state_dir
from perfgate.host.journal import Machine, is_alive, mark_of_this_process
from perfgate.model.errors import ConfigurationError
from perfgate.systems.attached import manifest as module
from perfgate.systems.attached.manifest import Manifest, leftovers


def here(folder: Path) -> dict[str, str]:
    return journal.this_machine(folder.stat().st_dev)._asdict()


def orphaned(folder: Path, *lines: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "r1.jsonl"
    path.write_text("\n".join((json.dumps({"run": "r1", "cluster": "c", **here(folder)}), *lines)))
    return path


def test_a_process_is_alive_until_it_ends() -> None:
    assert is_alive(mark_of_this_process())
    done = subprocess.run(
        [sys.executable, "-c", "from perfgate.host.journal import *; print(mark_of_this_process())"],
        capture_output=True,
        text=True,
        check=True,
    )
    gone = done.stdout.strip()
    assert not is_alive(gone)
    assert is_alive("1@0.00@another-host@pid:[1]")
    before, _, namespace = gone.rpartition("@")
    assert namespace.startswith("pid:[")
    assert is_alive(f"{before}@pid:[1]"), "a container with this host's name, whose processes are not seen from here"


@pytest.mark.parametrize("step_s", [-3600.0, 2.0])
def test_a_process_is_alive_after_a_step_of_the_clock(step_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start removed the containers of a run that went on, and its brokers had failed."""
    mark = mark_of_this_process()
    boot_s = psutil.boot_time()
    monkeypatch.setattr(psutil, "boot_time", lambda: boot_s + step_s)  # the time of now less the machine's up-time
    monkeypatch.setattr(psutil.Process, "create_time", lambda _, of=psutil.Process.create_time: of(_) + step_s)
    assert is_alive(mark)


def test_the_runs_own_topics_are_not_left_over_while_it_lives(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r1")
    manifest.plans("kpg-1")
    manifest.made("kpg-1", "id-1")
    assert list(leftovers(tmp_path, "c")) == []
    manifest.close()
    assert list(tmp_path.glob("*.jsonl")), "a topic is still there: the next start has to see to it"
    manifest = Manifest(tmp_path, cluster_id="c", run_id="r2")
    manifest.plans("kpg-2")
    manifest.gone("kpg-2")
    manifest.close()
    assert [path.stem for path in tmp_path.glob("*.jsonl")] == ["r1"]


def test_what_a_dead_run_left_is_read_for_its_cluster_alone(tmp_path: Path) -> None:
    orphaned(
        tmp_path,
        '{"topic": "a"}',
        '{"topic": "a", "id": "1"}',
        '{"topic": "b"}',
        '{"gone": "a"}',
        '{"broker": "2", "name": "num.io.threads", "before": "8"}',
        '{"topic": "c", "id": "3"}',
    )
    assert list(leftovers(tmp_path, "another")) == []
    (left,) = leftovers(tmp_path, "c")
    assert left.topics == {"b": "", "c": "3"}
    assert left.configs == [{"broker": "2", "name": "num.io.threads", "before": "8"}]


@given(st.integers(0, 200))
def test_a_file_that_was_cut_off_anywhere_says_what_was_written_before(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("m")
    path = orphaned(folder, *(f'{{"topic": "kpg-{n}", "id": "{n}"}}' for n in range(4)))
    text = path.read_text()
    path.write_text(text[: len(text) - cut])
    whole = path.read_text().count('"}')
    found = [len(left.topics) for left in leftovers(folder, "c")]
    assert found == ([whole - 1] if whole else [])


def test_the_state_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_dir() == tmp_path / "kafka-perf-gate"


def test_what_another_host_left_is_told_and_left_alone(tmp_path: Path) -> None:
    path = orphaned(tmp_path, '{"topic": "a", "id": "1"}', '{"away": "2", "address": "b:1", "back": "start"}')
    (mine,) = leftovers(tmp_path, "c")
    assert mine.has_ended
    machine = here(tmp_path)
    path.write_text(path.read_text().replace(machine["host"], "runner-7").replace(machine["boot"], "another"))
    (other,) = leftovers(tmp_path, "c")
    assert not other.has_ended
    assert other.text == "run r1 of host runner-7, 0.0 days ago: broker 2 away (start), topic a"


@pytest.mark.parametrize(
    ("was", "here", "ended"),
    [
        ("a 1 x 7", "a 1 x 7", True),
        ("a 1 x 7", "a 1 y 8", True),  # the machine has been started again
        ("a - x 7", "b - x 7", True),  # two containers of one machine: the lock is of one kernel
        ("a - x 7", "b - x 8", False),  # and two mounts, of which one may not see the other's locks
        ("a 1 x 7", "a 2 y 7", False),  # two machines of one name
        ("a 1 x 7", "b 1 y 7", False),  # two of one image
        ("a - x 7", "a - y 7", False),  # two of one name and without a number
        ("a - - 7", "b - - 7", False),  # nothing is known
    ],
)
def test_a_run_is_known_to_have_ended_where_the_kernel_tells(was: str, here: str, ended: bool) -> None:
    there, reader = (Machine(*words.replace("-", "").split(" ")) for words in (was, here))
    assert there.locks_count(reader) is ended


def test_a_broker_that_was_brought_back_is_not_brought_back_again(tmp_path: Path) -> None:
    orphaned(tmp_path, '{"away": "2", "address": "b:1", "back": "start"}', '{"topic": "a", "id": "1"}\n{"top')
    (left,) = leftovers(tmp_path, "c")
    left.came_back(2)
    (again,) = leftovers(tmp_path, "c")
    assert (left.away, again.away, again.topics) == ({}, {}, {"a": "1"})


def test_a_setting_that_was_changed_twice_stays_noted_until_both_changes_are_undone(tmp_path: Path) -> None:
    change = {"broker": "2", "name": "num.io.threads", "before": None, "effective": "8", "value": "16"}
    later = {**change, "before": "16", "effective": "16", "value": "32"}
    orphaned(tmp_path, *map(json.dumps, (change, later, {**change, "broker": "1"})))
    (left,) = leftovers(tmp_path, "c")
    left.restored(later)
    (again,) = leftovers(tmp_path, "c")
    assert len(again.configs) == 3
    left.restored(change)
    (again,) = leftovers(tmp_path, "c")
    assert [one["broker"] for one in again.configs] == ["1"]


def test_a_manifest_that_names_a_host_alone_may_be_of_a_run_that_lives(tmp_path: Path) -> None:
    header = {"run": "r1", "cluster": "c", "host": here(tmp_path)["host"]}
    (tmp_path / "r1.jsonl").write_text(json.dumps(header))
    (left,) = leftovers(tmp_path, "c")
    assert not left.has_ended


def test_a_folder_that_others_could_have_written_to_is_not_acted_upon(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "m").symlink_to(tmp_path / "there")
    for read in (leftovers, module.away_from):
        with pytest.raises(ConfigurationError, match="is a link or another user's"):
            list(read(tmp_path / "m", "c"))
