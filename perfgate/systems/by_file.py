"""Real brokers by their file: which system it is about, its reader, and its target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

from perfgate.model.errors import ConfigurationError
from perfgate.model.system import SYSTEMS
from perfgate.systems.attached.target import AttachedTarget, Permitted
from perfgate.systems.attached.target_file import AT_THE_TOP, Described, reading


def load_described(path: Path) -> Described:
    """Return the target that a file describes. Raises ConfigurationError naming file, table and key, never a secret."""
    with reading(path) as document:
        system = document.get("system", "kafka")
        if system not in SYSTEMS:
            legal = " or ".join(f'"{name}"' for name in SYSTEMS)
            raise ConfigurationError(f"system = {system!r} must be {legal}, {AT_THE_TOP}")
    match system:
        case "kafka":
            from perfgate.systems.kafka.attached.described import load_target
            from perfgate.systems.kafka.attached.java_properties import key_stores_of_a_run

            return load_target(path, key_stores_of_a_run())
        case _:
            from perfgate.systems.pulsar.attached.described import load_target as load_pulsar

            return load_pulsar(path)


def attached(
    described: Described, note: Callable[[str], None], **permitted: Unpack[Permitted]
) -> AttachedTarget[Any, Any]:
    """Return the target of a described cluster, whatever its system; see :class:`AttachedTarget`."""
    from perfgate.systems.pulsar.attached.described import DescribedPulsar

    if isinstance(described, DescribedPulsar):
        from perfgate.systems.pulsar.attached.external import PulsarTarget

        return PulsarTarget(described, note=note, **permitted)
    from perfgate.systems.kafka.attached.described import DescribedTarget
    from perfgate.systems.kafka.attached.external import ExternalTarget

    assert isinstance(described, DescribedTarget)
    return ExternalTarget(described, note=note, **permitted)
