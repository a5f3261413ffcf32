"""Options of every broker's JVM, the memory that it takes with them, and where its log goes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfgate.systems.kafka.managed.brokers import (
    HEAP,
)

# The collector's settings are those of Kafka's own start script.
JVM_OPTIONS = (
    "-server",
    *HEAP,
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
OF_G1 = ("-XX:+UseG1GC", "-XX:InitiatingHeapOccupancyPercent=35")
"""A JVM that is told of two collectors does not start."""
LARGEST_HEAP = re.compile(r"-Xmx(\d+)([kmgKMG]?)")
IN_MIB = {"": 2**-20, "k": 2**-10, "m": 1.0, "g": 1024.0}
BESIDE_HEAP_MIB = 250.0
"""Code, classes, threads and buffers: 703 MiB in all were seen with a heap of 512 (Kafka 4.3.1)."""
LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
"""


def names_collector(asked: Sequence[str]) -> bool:
    """Return whether these options choose a garbage collector."""
    return any(COLLECTOR.fullmatch(option) for option in asked)


def needed_mib(asked: Sequence[str]) -> float:
    """Return about how much memory a broker with these options takes: its heap, and what the JVM has besides."""
    heaps = [found for option in jvm_options(asked) if (found := LARGEST_HEAP.fullmatch(option))]
    number, unit = heaps[-1].groups()
    return float(number) * IN_MIB[unit.lower()] + BESIDE_HEAP_MIB


def jvm_options(asked: Sequence[str]) -> list[str]:
    """Return the suite's own options, then those that a run asks for: a later one wins, as another collector does."""
    left_out = OF_G1 if names_collector(asked) else ()
    return [*(option for option in JVM_OPTIONS if option not in left_out), *asked]
