"""Journals of one load host's generators, brought to the run: whole, within a bound, with times of the run's clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import numpy as np

from perfgate.load.clocks import Estimate
from perfgate.load.history import KINDS, Rows, read_journal
from perfgate.model.load import LoadError

CHUNK_BYTES = 1 << 20
LEAST_S, LEAST_BYTES_PER_S = 30.0, 2e6
"""A host that gives its journals more slowly than this keeps the run waiting for longer than a round is worth."""
AS_THERE = "as-there"
"""The folder of the journals as their hosts wrote them, by host."""


class Ask(Protocol):
    """Asks the agent of a host; raises LoadError when it does not answer."""

    def __call__(self, method: str, *args: object) -> Any: ...


class HostJournals:
    """What the generators of one host have written down, as far as it was brought here."""

    def __init__(self, host: str, ask: Ask) -> None:
        self._host, self._ask = host, ask
        self._have: dict[str, int] = {}

    def bring(self, folder: Path, before: Estimate, now: Estimate) -> None:
        """Bring what is new, and have all of it in `folder`, its times translated. Raises LoadError.

        `before`, `now`: the host's clock at the start, and now.
        """
        try:
            self._bring(folder, before, now)
        except OSError as error:
            raise LoadError(f"the journals of the load host {self._host} cannot be kept here: {error}") from error

    def _bring(self, folder: Path, before: Estimate, now: Estimate) -> None:
        there = folder / AS_THERE / f"of-{quote(self._host, safe='')}"
        there.mkdir(parents=True, exist_ok=True)
        sizes: Mapping[str, int] = self._ask("written")
        until = time.monotonic() + LEAST_S + sum(sizes.values()) / LEAST_BYTES_PER_S
        for name in sorted(self._have.keys() | sizes.keys()):
            kind = KINDS.get(Path(name).suffix)
            if kind is None or Path(name).name != name:
                raise LoadError(f"the load host {self._host} has written {name!r}, which is no journal")
            self._append(name, sizes.get(name, 0), there / name, until)
            rows = translated(read_journal(there / name, kind), before, now)
            (folder / name).write_bytes(rows.tobytes())

    def _append(self, name: str, size: int, path: Path, until: float) -> None:
        have = self._have.setdefault(name, 0)
        if size < have:
            raise LoadError(f"the load host {self._host} lost {have - size:,} bytes of {name}, which it had written")
        with path.open("ab") as file:
            while have < size:
                if time.monotonic() > until:
                    raise LoadError(
                        f"the load host {self._host} is too slow: {have:,} of {size:,} bytes of {name} came"
                    )
                chunk: bytes = self._ask("read", name, have, min(CHUNK_BYTES, size - have))
                if not chunk:
                    raise LoadError(f"the load host {self._host} gave {have:,} of {size:,} bytes of {name}")
                file.write(chunk)
                have += len(chunk)
                self._have[name] = have


def translated(rows: Rows, before: Estimate, now: Estimate) -> Rows:
    """Return the rows with times of the run's clock: the offset changes evenly from one estimate to the other."""
    found = rows.copy()
    ends = [before.at + before.offset, max(now.at + now.offset, before.at + before.offset)]
    found["at"] -= np.interp(rows["at"], ends, [before.offset, now.offset])
    return found
