"""Files that are dropped from the page cache: how much of them is left there is told."""

import mmap
import os
from pathlib import Path

import pytest

from perfgate.host import page_cache
from perfgate.host.page_cache import drop

BYTES = 4 << 20


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files that were just written: all of them is in the page cache, and dirty."""
    paths = [tmp_path / name for name in ("0.log", "1.log")]
    for path in paths:
        path.write_bytes(os.urandom(BYTES))
    return paths


def in_cache(path: Path) -> float:
    held, pages = page_cache._in_cache(path)
    return held / pages


def test_what_is_dropped_is_no_longer_in_the_page_cache(files: list[Path]) -> None:
    assert [in_cache(path) for path in files] == [1.0, 1.0]
    assert drop(files[:1]) < 0.05
    assert in_cache(files[1]) == 1.0
    whole = files[0].read_bytes()
    assert len(whole) == BYTES
    assert in_cache(files[0]) == 1.0, "until it is read again"


def test_what_stays_is_told(files: list[Path]) -> None:
    with files[1].open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert mapped[:: mmap.PAGESIZE], "pages that a process has mapped are kept"
        assert drop(files) == pytest.approx(0.5, abs=0.05)


def test_a_file_that_is_gone_or_empty_counts_for_nothing(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    assert drop([tmp_path / "gone.log", tmp_path / "empty.log"]) == 0.0
    assert drop([*files, tmp_path / "gone.log"]) < 0.05
