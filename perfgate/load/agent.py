"""The agent of a load host: starts generator processes there, and passes on messages between them and the run."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import cast

from perfgate.host.environment import time_service
from perfgate.host.journal import LockedFolder, delete_left_over
from perfgate.host.machine_use import boot_id, look, speeds, use
from perfgate.load import boot
from perfgate.load.transport import LocalProcess, LocalTransport, Message, ended
from perfgate.model.load import LoadError
from perfgate.model.measured import MachineUse, TimeService

SILENT_S = 8.0
"""The run asks for messages several times a second; after this time without a request it is gone."""
PACKAGE = Path(__file__).parents[1]
PACKAGES = ("confluent-kafka", "distributed", "hdrhistogram", "numpy", "psutil")
"""Packages that must have the same version on all hosts."""


@cache
def fingerprint() -> str:
    """The version of Python and a digest of this package, which must be the same on all hosts."""
    return boot.fingerprint(PACKAGE, platform.python_version())


def versions() -> str:
    return ", ".join([fingerprint(), *(f"{name} {version}" for name, version in packages().items())])


def packages() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in PACKAGES}


class Agent:
    """A host's side of the connection to the run. A Dask actor: its coroutines run in the worker's event loop."""

    def __init__(self) -> None:
        self._processes: Mapping[str, LocalProcess] = {}
        self._messages: list[tuple[str, Message | None]] = []
        self._arrived = asyncio.Event()
        self._asked_at = 0.0
        self._watching: asyncio.Task[None] | None = None
        self._measuring: asyncio.Task[MachineUse | None] | None = None
        self._timing: asyncio.Task[TimeService | None] | None = None
        self._folder: LockedFolder | None = None

    def now(self) -> float:
        return time.monotonic()

    async def version(self) -> str:
        return versions()

    async def clock(self) -> tuple[float, float]:
        """Times at which this request was received and answered."""
        return self.now(), self.now()

    async def start(self, specs: Mapping[str, Mapping[str, object]], worker: Sequence[str]) -> None:
        """Start a process for each spec, those of an earlier round ended. Raises LoadError; nothing is left then."""
        await self.end()
        loop, messages, arrived = asyncio.get_running_loop(), list[tuple[str, Message | None]](), asyncio.Event()
        self._messages, self._arrived = messages, arrived

        def heard(name: str, message: Message | None) -> None:
            messages.append((name, message))
            if message is None or message["event"] != "progress":  # that comes ten times a second, and may wait
                loop.call_soon_threadsafe(arrived.set)

        self._asked_at = time.monotonic()
        try:
            await asyncio.to_thread(delete_left_over)
            self._processes = LocalTransport(worker).start(self._with_folder(specs), heard)
        except LoadError:
            await self.end()
            raise
        except OSError as error:
            await self.end()
            raise LoadError(f"its generators cannot be started: {error}") from error
        self._watching = loop.create_task(self._watch())

    async def listen(self, patience_s: float) -> tuple[float, float, Sequence[tuple[str, Message | None]]]:
        """Times at which this request was received and answered, and the processes' messages since the last call.

        It is answered as soon as there is more than progress; each call is an exchange of clocks, too. Raises
        LookupError when this agent has started no process: the agent that had is gone.
        """
        if not self._processes:
            raise LookupError(
                "its agent has no generator process: it was started anew, or ended them for want of a run"
            )
        received, self._asked_at = self.now(), time.monotonic()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._arrived.wait(), patience_s)
        self._arrived.clear()
        count = len(self._messages)
        taken = self._messages[:count]
        del self._messages[:count]
        return received, self.now(), taken

    async def post(self, name: str, message: Mapping[str, object]) -> None:
        """Pass a message on to a process, if it still exists. The machine's use in the message's window is measured."""
        if name in self._processes:
            self._processes[name].post(message)
        if "window" in message and self._measuring is None:
            opens, closes = cast(tuple[float, float], message["window"])
            loop = asyncio.get_running_loop()
            self._measuring = loop.create_task(self._measure(opens, closes))
            self._timing = loop.create_task(asyncio.to_thread(time_service))  # before the window: it costs a process

    async def machine(self, run_boot_id: str) -> MachineUse | None:
        """This machine's use in the window, once that has closed; None: unknown. `run_boot_id`: the run's machine."""
        machine = await self._measuring if self._measuring else None
        return machine and replace(machine, with_run=run_boot_id == boot_id())

    async def time_service(self) -> TimeService | None:
        """The state of this host's wall clock when the window became known; None where chrony did not answer."""
        return await self._timing if self._timing else None

    async def written(self) -> Mapping[str, int]:
        """The size of each journal, in bytes."""
        return {} if self._folder is None else await asyncio.to_thread(_sizes, self._folder.path)

    async def read(self, name: str, begin: int, count: int) -> bytes:
        """At most `count` bytes of a journal, from the byte `begin` on. Raises LoadError."""
        if self._folder is None or Path(name).name != name:
            raise LoadError(f"it has no journal {name}")
        try:
            return await asyncio.to_thread(_part, self._folder.path / name, begin, count)
        except OSError as error:
            raise LoadError(f"its journal {name} cannot be read: {error}") from error

    async def kill(self, name: str) -> None:
        if name in self._processes:
            self._processes[name].kill()

    async def obituary(self, name: str) -> str:
        return await asyncio.to_thread(self._processes[name].obituary)

    async def end(self) -> None:
        """End every process, and delete the journals."""
        for task in (self._watching, self._measuring, self._timing):
            if task:
                task.cancel()
        self._measuring = self._timing = None
        await self._end_processes()

    async def _end_processes(self) -> None:
        processes, self._processes = self._processes, {}
        await asyncio.to_thread(ended, processes)
        folder, self._folder = self._folder, None
        if folder:
            await asyncio.to_thread(folder.delete)

    def _with_folder(self, specs: Mapping[str, Mapping[str, object]]) -> Mapping[str, Mapping[str, object]]:
        """The specs, with this agent's own folder in place of a folder of the run's machine."""
        if not any(spec.get("history") for spec in specs.values()):
            return specs
        self._folder = LockedFolder()
        own = {"history": str(self._folder.path)}
        return {name: {**spec, **own} if spec.get("history") else spec for name, spec in specs.items()}

    async def _measure(self, opens: float, closes: float) -> MachineUse | None:
        try:
            await asyncio.sleep(opens - self.now())
            before = look()
            await asyncio.sleep(closes - self.now())
            return use(before, look(), speeds(), with_run=False)
        except (OSError, ValueError, LookupError):  # this system counts otherwise, or a processor came or went
            return None

    async def _watch(self) -> None:
        while time.monotonic() - self._asked_at < SILENT_S:
            await asyncio.sleep(1)
        await self._end_processes()


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def _part(path: Path, begin: int, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(count)
