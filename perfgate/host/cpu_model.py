"""The name of a processor, from the text of /proc/cpuinfo."""

from __future__ import annotations

IMPLEMENTER, PART = "CPU implementer", "CPU part"
NAMES = ("model name", "cpu model", "cpu", "uarch")
"""Where x86, MIPS, POWER and RISC-V have the name, in the order in which they are looked for."""


def cpu_model(cpuinfo: str, machine: str) -> str:
    """Return the processor's name; `machine`, as uname prints it, where the text has none.

    ARM's kernels print no name, or one of the architecture alone ("ARMv8 Processor rev 1"), which any two ARM machines
    share: there it is the implementer and the part of its cores (registers of theirs: MIDR_EL1), in hexadecimal.
    """
    fields: dict[str, dict[str, None]] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if value.strip():
            fields.setdefault(name.strip(), {})[value.strip()] = None
    if IMPLEMENTER in fields:
        makers, parts = (" + ".join(sorted(fields.get(name, {"unknown": None}))) for name in (IMPLEMENTER, PART))
        return f"{machine} implementer {makers} part {parts}"
    return next((next(iter(fields[name])) for name in NAMES if name in fields), machine)
