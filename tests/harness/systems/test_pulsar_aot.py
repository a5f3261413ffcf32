"""Java's caches of Pulsar's roles: one node of each role records, all use, and half a cache is none."""

from pathlib import Path

import pytest

from perfgate.host.java import AotCaches
from tests.harness.build.clock import Clock


@pytest.fixture
def paths(tmp_path: Path, clock: Clock) -> dict[str, Path | None]:
    return {
        "bookie": tmp_path / "aot" / "bookie.aot",
        "broker": tmp_path / "aot" / "broker.aot",
        "metadata store": None,
    }


def recorded(option: list[str]) -> Path:
    (text,) = option
    assert text.startswith("-XX:AOTCacheOutput=")
    return Path(text.partition("=")[2])


def test_one_node_of_each_role_records_and_later_ones_use_it(paths: dict[str, Path | None]) -> None:
    first = AotCaches(paths)
    bookie, broker = (recorded(first.options(role, node)) for role, node in (("bookie", 11), ("broker", 1)))
    assert first.options("bookie", 12) == first.options("metadata store", 21) == []
    assert first.recording == {"bookie": 11, "broker": 1}
    assert not first.used
    ended: list[int] = []

    def end(node: int) -> None:
        ended.append(node)
        {11: bookie, 1: broker}[node].write_bytes(b"a cache")

    first.keep(end, lambda node: 0 if node in ended else None)
    assert ended == [11, 1]
    first.delete_drafts()
    second = AotCaches(paths)
    assert second.options("bookie", 11) == second.options("bookie", 12) == [f"-XX:AOTCache={paths['bookie']}"]
    assert second.used
    assert not second.recording
    assert sorted(path.name for path in bookie.parent.iterdir()) == ["bookie.aot", "broker.aot"]


def test_a_tool_that_has_ended_leaves_its_cache_at_once_and_records_no_more(paths: dict[str, Path | None]) -> None:
    first = AotCaches(paths)
    recorded(first.options("bookie", 0)).write_bytes(b"a cache")
    first.keep_of("bookie")
    first.keep_of("broker")
    assert not first.recording
    assert first.options("bookie", 11) == [f"-XX:AOTCache={paths['bookie']}"]


@pytest.mark.parametrize("status", [-9, None])
def test_a_node_that_crashed_or_takes_too_long_leaves_no_cache(
    paths: dict[str, Path | None], status: int | None
) -> None:
    caches = AotCaches(paths)
    part = recorded(caches.options("bookie", 11))
    part.write_bytes(b"half")
    part.with_name(f"{part.name}.config").write_bytes(b"a draft of Java's")
    caches.keep(lambda node: None, lambda node: status)
    caches.delete_drafts()
    assert list(part.parent.iterdir()) == []
    assert recorded(AotCaches(paths).options("bookie", 11))


def test_where_no_cache_can_be_written_nodes_start_without(paths: dict[str, Path | None], tmp_path: Path) -> None:
    """A folder of caches that is mounted read-only was a traceback."""
    (tmp_path / "aot").touch()  # a folder is made here by nobody
    caches = AotCaches(paths)
    assert caches.options("bookie", 11) == []
    assert not caches.recording
