"""Settings by which a client, a broker or its JVM loads code that is not the suite's, or runs a command."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perfgate.model.errors import ConfigurationError

OF_CLIENTS = re.compile(
    # librdkafka's, and those of the Java client, which the official tools are.
    r"plugin\..+|ssl\.(engine\..+|providers?)|sasl\.kerberos\.kinit\.cmd|.+\.(class|classes|reporters)"
    r"|(key|value)\.(de)?serializer|config\.providers.*|security\.providers|sasl\.(login|client)\..*(class|config)"
)
OF_BROKERS = re.compile(
    r".+\.(class(\.name|\.path)?|reporters|assignors)|config\.providers.*|security\.providers|ssl\.provider"
    r"|sasl\.(jaas\.config|kerberos\.kinit\.cmd|oauthbearer\..+\.(url|file))|zookeeper\.clientCnxnSocket"
)
"""A login module is a class, too; a token endpoint's or assertion's address may be a file of this machine."""
KAFKAS_OWN = re.compile(r"org\.apache\.kafka\.[\w.$]+|uniform|range|simple")
"""A class of Kafka itself, which its jars hold, or an assignor by its short name."""
OF_SCOPES = {"producer": OF_CLIENTS, "consumer": OF_CLIENTS, "broker": OF_BROKERS}
HARMLESS_JVM = re.compile(
    r"-X(m[snx]|ss)\d+[kmgtKMGT]?|-X(int|comp|mixed|batch|rs)|-server|-verbose(:\w+)?|-Xlog:(?!.*file=)[^/\\]*"
    r"|-XX:[+-]\w+|-XX:\w+=[\d.]+[%kmgtKMGT]?|-D(?!com\.sun\.management)[\w.]+=(true|false|[\d.]+[kmgKMG]?)"
)
"""Options of a JVM that set sizes, switches and numbers; others load agents and classes, or run a command."""
PERMISSION = "--allow-commands"


def loads_code(path: str, value: object) -> str:
    """Return which part of a change loads code or runs a command; empty where none does."""
    scope, _, name = path.partition(".")
    if path == "cluster.jvm":
        return next((one for one in _options(value) if not HARMLESS_JVM.fullmatch(one)), "")
    if scope not in OF_SCOPES or not OF_SCOPES[scope].fullmatch(name):
        return ""
    own = not name.startswith("sasl.") and all(map(KAFKAS_OWN.fullmatch, re.split(r"\s*,\s*", str(value).strip())))
    return "" if own else name


def refuse_code(path: str, value: object, told: str) -> None:
    """Raise ConfigurationError, with what was `told`, for a change that loads code or runs a command."""
    if found := loads_code(path, value):
        raise ConfigurationError(
            f"{told}: {found} loads code or runs a command on this machine or its brokers: read where it is from, then "
            f"add {PERMISSION}"
        )


def refuse_code_of_clients(names: Iterable[str], told: str) -> None:
    """Raise ConfigurationError for settings of clients that do so, of a target file that somebody else named."""
    for name in names:
        refuse_code(f"producer.{name}", "", f"{told}: [client] {name}")


def _options(value: object) -> list[str]:
    return (
        value.split() if isinstance(value, str) else [str(one) for one in value] if isinstance(value, Iterable) else []
    )
