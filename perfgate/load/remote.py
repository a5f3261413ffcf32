"""The process of an agent on a load host of a file: a Dask worker that ends with the run. ``-m perfgate.load.remote``.

Its standard input is a pipe of the run: the scheduler to connect to, then a line every few seconds. When that ends, or
is silent for SILENT_S, the run is gone: this process ends, with all that it has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
import socket
import threading
from pathlib import Path
from typing import Any

import dask
import psutil
from distributed import Worker

from perfgate.host.journal import LockedFolder, delete_left_over
from perfgate.load.boot import say
from perfgate.load.scheduler import SETTINGS, security
from perfgate.model.secret import leave_no_core_dump

SILENT_S = 60.0
"""An agent ends its generators after 8 s without a run; a network that is back by then still has its worker."""
REACHED_WITHIN_S = 5.0
RUN_IS_GONE = 70


def main() -> None:
    stdin = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 - by number, for the whole life
    instructions = json.loads(stdin.readline())
    leave_no_core_dump()
    delete_left_over()
    folder = LockedFolder()
    threading.Thread(target=_follow, args=(folder,), daemon=True).start()
    try:
        with dask.config.set({**SETTINGS, "temporary-directory": str(folder.path)}):
            asyncio.run(_serve(instructions, folder.path))
    except Exception as error:  # any error is reported to the run, in a line
        say(event="failed", reason=" ".join(str(error).split()) or repr(error))
    _end(folder)


async def _serve(instructions: dict[str, Any], folder: Path) -> None:
    host, port = instructions["scheduler"]
    try:
        socket.create_connection((host, port), timeout=REACHED_WITHIN_S).close()
    except OSError as error:
        raise ConnectionError(
            f"cannot reach the run at {host}, port {port}: {error}; open that port to this host (port = ... fixes it), "
            "or state where hosts reach the run: address = ..."
        ) from error
    bracketed = f"[{host}]" if ":" in host else host
    worker = Worker(
        f"tls://{bracketed}:{port}",
        name=instructions["name"],
        nthreads=1,
        memory_limit=0,
        host=instructions["address"],
        dashboard_address="127.0.0.1:0",  # every worker has a web server: without TLS, at its own address by itself
        security=security(instructions["certificate"], instructions["key"]),
        local_directory=str(folder),
        silence_logs=logging.CRITICAL,
    )
    async with worker:
        say(event="worker", address=worker.address)
        await worker.finished()  # type: ignore[no-untyped-call]


def _follow(folder: LockedFolder) -> None:
    while select.select([0], [], [], SILENT_S)[0] and os.read(0, 4096):
        pass
    _end(folder)


def _end(folder: LockedFolder) -> None:
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    folder.delete()
    os._exit(RUN_IS_GONE)


if __name__ == "__main__":
    main()
