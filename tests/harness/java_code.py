"""Java for brokers of tests: a class that is compiled into a folder, for their class path."""

import subprocess
from pathlib import Path

from perfgate.host.java import find_java
from perfgate.host.maven import Jars
from perfgate.model import DEFAULT_KAFKA_VERSION
from perfgate.systems.kafka.java import kafka_jars, resolved_jars

COMPILER = "org.eclipse.jdt:ecj:3.38.0"


def jars_with(folder: Path, name: str, source: str) -> Jars:
    """Return Kafka's jars and, in `folder`, the class called `name`."""
    (path := folder / f"{name}.java").write_text(source)
    java, jars = find_java(), kafka_jars(DEFAULT_KAFKA_VERSION)
    (compiler,) = resolved_jars("the compiler", COMPILER)
    compile_ = [java, "-jar", compiler, "-17", "-cp", jars.classpath, "-d", folder, path]
    subprocess.run([str(part) for part in compile_], check=True, timeout=300)
    return Jars(version=jars.version, jars=(*jars.jars, folder))
