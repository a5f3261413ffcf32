"""The question to a Dask scheduler whether it is one, bounded in time, and what answers in its place."""

from __future__ import annotations

import asyncio

from distributed.core import rpc

from perfgate.model.errors import ConfigurationError

WHERE = 'a scheduler says where it is as it starts: "Scheduler at: tcp://..."'


def check_scheduler(address: str, *, connect_s: float, answer_s: float) -> None:
    """Ask the scheduler who it is. Raises ConfigurationError: what is there in its place.

    A client bounds the connection by itself, and waits for ever for the first word of what takes it.
    """
    try:
        asyncio.run(asyncio.wait_for(_identity(address, connect_s), connect_s + answer_s))
    except TimeoutError as error:
        raise ConfigurationError(
            f"--hosts={address}: something takes connections there and says nothing, as a Dask scheduler's dashboard "
            f"does, or a scheduler that hangs; {WHERE}"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"--hosts={address}: no Dask scheduler answers there: {error}") from error
    except Exception as error:  # what another protocol's or version's answer brings about
        raise ConfigurationError(
            f"--hosts={address}: what answers there is no Dask scheduler of this version: {error!r}; {WHERE}"
        ) from error


async def _identity(address: str, connect_s: float) -> None:
    async with rpc(address, timeout=connect_s) as scheduler:  # type: ignore[no-untyped-call]
        await scheduler.identity(n_workers=-1)
