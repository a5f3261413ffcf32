"""The kernel's page cache of files: drop them from it, and measure how much of them is in it."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

TRIES = 3
_libc = ctypes.CDLL(None, use_errno=True)


def drop(files: Iterable[Path]) -> float:
    """Write these files out and drop them from the page cache; return the share of their bytes that is still in it.

    Pages that are written meanwhile, or are mapped, stay. Raises OSError.
    """
    paths = list(files)
    for _ in range(TRIES):
        for path in paths:
            _drop(path)
    counts = [_in_cache(path) for path in paths]
    whole = sum(pages for _, pages in counts)
    return sum(cached for cached, _ in counts) / whole if whole else 0.0


def _drop(path: Path) -> None:
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # its owner has deleted it meanwhile
        return
    try:
        os.fsync(file)  # dirty pages are not dropped
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def _in_cache(path: Path) -> tuple[int, int]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return 0, 0
            mapped = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
    except FileNotFoundError:
        return 0, 0
    with mapped:
        pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
        whole = np.frombuffer(mapped, np.uint8)
        failed = _libc.mincore(
            ctypes.c_void_p(whole.ctypes.data), ctypes.c_size_t(size), ctypes.c_void_p(pages.ctypes.data)
        )
        del whole  # or the map could not be closed
        if failed:
            raise OSError(ctypes.get_errno(), f"mincore of {path}")
        return int(np.count_nonzero(pages & 1)), len(pages)
