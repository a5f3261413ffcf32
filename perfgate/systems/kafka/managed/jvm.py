"""What every broker process is started with: options of its JVM, and where its log goes."""

from __future__ import annotations

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
LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
"""
