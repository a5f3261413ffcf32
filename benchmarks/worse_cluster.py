"""A plugin for a gate run (`-p benchmarks.worse_cluster`): its brokers are as WORSE says, from when they are ready.

`tenth-cpu`: broker 2 has a tenth of the CPU that it uses otherwise; `stop-continue`: broker 2 is stopped for one second
in two; `slow-disk`: each write to a log of broker 2, a follower of most partitions, takes 50 ms longer
(benchmarks/slow_disk.c, compiled here); `never-ready`: brokers whose JVM has the option CANDIDATE stand still from
their start.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from perfgate.host.guard import Guard
from perfgate.host.machine_use import limit_cpu
from perfgate.systems.kafka.managed.embedded_cluster import EmbeddedCluster

WORSE = os.environ["WORSE"]
THE_BROKER = 2
TENTH_CORES = 0.04
"""A broker of these loads uses 0.3 to 0.5 cores."""
STOPPED_S = RUNNING_S = 1.0
SLOW_DISK_MS = 50
CANDIDATE = "-Dcandidate=1"
_start, _spawn = EmbeddedCluster.start, Guard.spawn


def start(cluster: EmbeddedCluster) -> None:
    """Start the cluster, then make its broker worse."""
    _start(cluster)
    pid = cluster.broker_pids()[THE_BROKER]
    if WORSE == "tenth-cpu":
        cluster.supervisor.guard.owns(limit_cpu(pid, TENTH_CORES))
    if WORSE == "stop-continue":
        threading.Thread(target=stop_and_go, args=(pid,), daemon=True).start()


def stop_and_go(pid: int) -> None:
    """Stop the process and let it go on, in turns, until it has ended."""
    pause = threading.Event()
    with suppress(ProcessLookupError):
        while True:
            os.kill(pid, signal.SIGSTOP)
            pause.wait(STOPPED_S)
            os.kill(pid, signal.SIGCONT)
            pause.wait(RUNNING_S)


def spawn(guard: Guard, argv: Sequence[object], *, log: Path) -> int:
    """Start a process, a broker with what makes it worse."""
    if WORSE == "slow-disk" and str(argv[-1]).endswith(f"broker-{THE_BROKER}.properties"):
        argv = [
            "/usr/bin/env",
            f"LD_PRELOAD={_shim(Path(str(argv[-1])).parent)}",
            f"SLOW_DISK_MS={SLOW_DISK_MS}",
            *argv,
        ]
    pid = _spawn(guard, argv, log=log)
    if WORSE == "never-ready" and CANDIDATE in argv:
        os.kill(pid, signal.SIGSTOP)
    return pid


def _shim(folder: Path) -> Path:
    """Return the compiled library; it lies in the folder of the cluster's data, which goes with the run."""
    made = folder / "slow_disk.so"
    if not made.exists():
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise FileNotFoundError("slow-disk needs a C compiler (cc)")
        source = Path(__file__).with_name("slow_disk.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", made, source, "-ldl"], check=True)
    return made


EmbeddedCluster.start = start  # type: ignore[method-assign, assignment]
Guard.spawn = spawn  # type: ignore[method-assign, assignment]
