"""Quotas of client ids on brokers of other owners, set and removed by Kafka's own tool.

librdkafka has no request for them (AlterClientQuotas, KIP-546). The tool cannot log in with librdkafka's settings, so
that brokers must take clients as anybody.
"""

from __future__ import annotations

import subprocess
from functools import cache

from perfgate.host.java import find_java
from perfgate.host.maven import Jars
from perfgate.host.session import run_in_session
from perfgate.model import ClusterSpec, Settings
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.kafka.java import jars_of, java_needed

QUOTA = "producer_byte_rate"
TOOLS = ("kafka.admin.ConfigCommand", "org.apache.kafka.tools.ConfigCommand")
"""The tool by its name in Kafka 4.3, and by that of the module that Kafka moves its tools to."""
NOT_SET = f"Invalid config(s): {QUOTA}"
"""The tool's words for a quota that is not there: a run that was killed had noted it, and not set it yet."""
NO_SUCH_TOOL = "ClassNotFoundException"
LAST_WORDS = 500
TIMEOUT_S = 60


@cache
def cannot_set(client: Settings) -> str:
    """Return why no quota can be set by a client with these settings; empty where it can."""
    if dict(client).get("security.protocol", "plaintext").lower() != "plaintext":
        return "its quota is set by Kafka's own tool, which cannot log in with librdkafka's settings"
    try:
        _command()
    except ConfigurationError as error:
        return f"its quota is set by Kafka's own tool: {error}"
    return ""


def set_quota(bootstrap: str, client_id: str, bytes_per_s: int | None, within_s: float = TIMEOUT_S) -> None:
    """Bound what each broker takes of a client id; None: remove it. Raises TargetError, also after `within_s`."""
    change = ["--delete-config", QUOTA] if bytes_per_s is None else ["--add-config", f"{QUOTA}={bytes_per_s}"]
    where = ["--bootstrap-server", bootstrap, "--alter", "--entity-type", "clients", "--entity-name", client_id]
    code, output = 1, ""
    for tool in TOOLS:
        try:
            code, output = run_in_session([*_command(), tool, *where, *change], within_s)
        except (ConfigurationError, subprocess.TimeoutExpired) as error:
            raise TargetError(f"the quota of client {client_id}: {error}") from error
        if not (code and NO_SUCH_TOOL in output):
            break
    if code and not (bytes_per_s is None and NOT_SET in output):
        raise TargetError(f"the quota of client {client_id}: Kafka's tool failed: {output[-LAST_WORDS:]}")


def _command() -> tuple[str, ...]:
    jars = _jars()
    java = find_java(java_needed(jars.version), what=f"the tools of Kafka {jars.version}")
    return str(java), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars.classpath


@cache
def _jars() -> Jars:
    return jars_of(ClusterSpec())
