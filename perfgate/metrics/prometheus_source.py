"""Source of a Prometheus as stated: its address, how brokers are distinguished, and how far its query looks back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfgate.model.errors import ConfigurationError

OF_CONTAINERS = "container.*|name|id|image|cpu"
OF_A_DASHBOARD = re.compile(r"\$(?:__\w+|\{\w+[^}]*\}|[A-Za-z]\w*)|\[\[\w+\]\]")
LEGAL = ("url", "source", "query", "match", "broker-label", "brokers", "username", "password", "token", "ca", "headers")
UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0, "y": 31_536_000.0}
OF_LAST_TWO = ("irate", "idelta")
"""Functions that use the last two scrapes of their range, however long that is."""
NOT_READ = re.compile(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])*'|`[^`]*`|#[^\n]*")
TOKEN = re.compile(r"\[[^]]*\]|[A-Za-z_:][\w:]*|\d[\w.]*|\S")


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """CPU as an exporter counts it: the counter of CPU seconds, its series' matchers, the label of the broker.

    `of`: whose CPU that is. `also`: the broker's label where the usual label is missing. `parts`: labels (a regular
    expression) in which the series of a broker, which add up, may differ.
    """

    counter: str
    of: str
    match: str = ""
    label: str = "instance"
    also: str = ""
    parts: str = ""

    def apart(self, series: Sequence[Mapping[str, str]]) -> str:
        """The other labels in which these differ, with their values, so that they are not of one broker."""
        names = sorted({name for labels in series for name in labels if not re.fullmatch(self.parts, name)})
        values = {name: sorted({labels.get(name, "") for labels in series}) for name in names}
        return "; ".join(f"{name} {', '.join(map(repr, of))}" for name, of in values.items() if len(of) > 1)


PRESETS: Mapping[str, Preset] = {
    # Each is what that exporter's documentation calls it; tried in this order.
    "jmx-exporter": Preset(counter="process_cpu_seconds_total", of="the broker's process"),
    "cadvisor": Preset(
        counter="container_cpu_usage_seconds_total",
        of="the broker's container",
        match='container!="",image!=""',
        label="pod",
        parts=OF_CONTAINERS,
    ),
    "docker-cadvisor": Preset(
        counter="container_cpu_usage_seconds_total",
        of="the broker's container",
        match='image!=""',
        label="name",
        parts=OF_CONTAINERS,
    ),
    "node-exporter": Preset(
        counter="node_cpu_seconds_total",
        of="the whole host that the broker is on",
        match='mode!~"idle|iowait|steal"',
        parts="cpu|mode",
    ),
    "strimzi": Preset(
        counter="process_cpu_seconds_total",
        of="the broker's process",
        match='strimzi_io_kind="Kafka"',
        label="kubernetes_pod_name",
        also="pod",
    ),
    "amazon-msk": Preset(counter="process_cpu_seconds_total", of="the broker's process", match='job="jmx"'),
    "aiven": Preset(
        counter="cpu_time_active", of="the whole host that the broker is on", match='cpu="cpu-total"', label="host"
    ),
    # Brokers of Pulsar and the metadata store name it like any process, bookies without _total.
    "pulsar": Preset(
        counter="", of="each broker's and each bookie's process", match='__name__=~"process_cpu_seconds(_total)?"'
    ),
}
OWN_QUERY = Preset(counter="", of="", parts=".*")
"""A query of the user's own: it adds up each broker's CPU itself."""
OF_KAFKA = tuple(name for name in PRESETS if name != "pulsar")
"""Presets that are tried in turn where none is stated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrometheusSource:
    """Address of a Prometheus, and how brokers are distinguished. `query`: own PromQL that gives cores per broker."""

    url: str
    preset: str = ""
    query: str = ""
    match: str = ""
    label: str = ""
    brokers: Mapping[str, int] = field(default_factory=dict)
    """Broker ids by the label's value; empty: by the host names that the brokers advertise."""
    username: str = ""
    password: str = ""
    token: str = ""
    ca: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def looks_back_s(self) -> float:
        return looks_back_s(self.query)


def check_url(url: str, stated: str) -> str:
    """`url` if it can be a Prometheus'. Raises ConfigurationError that begins with `stated`."""
    if "@" in url.partition("?")[0]:
        raise ConfigurationError(f"{stated}: a user and a password belong into username and password of [prometheus]")
    if not re.match(r"https?://[^\s/]+", url):
        raise ConfigurationError(f"{stated} {url!r} must read like https://prometheus:9090")
    return url


def source_of(table: Mapping[str, Any]) -> PrometheusSource:
    """The source that a [prometheus] table states. Raises ConfigurationError naming the key."""
    for key in table:
        if key not in LEGAL:
            raise ConfigurationError(f"[prometheus] has unknown key {key!r}; legal: {', '.join(LEGAL)}")
    texts = {key: table.get(key, "") for key in LEGAL if key not in ("brokers", "headers")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise ConfigurationError(f"[prometheus] {key} must be a text")
    check_url(texts["url"], "[prometheus] url =")
    if texts["source"] and texts["source"] not in PRESETS:
        raise ConfigurationError(f"[prometheus] source = {texts['source']!r} is none of {', '.join(PRESETS)}")
    if texts["ca"] and not Path(texts["ca"]).is_file():
        raise ConfigurationError(f"[prometheus] ca: no such file: {texts['ca']}")
    variables = {key: dict.fromkeys(OF_A_DASHBOARD.findall(texts[key])) for key in ("query", "match")}
    if words := "; ".join(f"{key}: {', '.join(names)}" for key, names in variables.items() if names):
        raise ConfigurationError(
            f"[prometheus] {words}: variables of a dashboard, which Prometheus does not know; write what each stands "
            "for (a duration, as in rate(...[1m]), or a label's value)"
        )
    looks_back_s(texts["query"])
    brokers, headers = table.get("brokers", {}), table.get("headers", {})
    if not isinstance(brokers, dict) or not all(
        isinstance(b, int) and not isinstance(b, bool) for b in brokers.values()
    ):
        raise ConfigurationError(
            '[prometheus] brokers must map a label\'s values to broker ids: { "kafka-1:7071" = 1 }'
        )
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ConfigurationError('[prometheus] headers must map names to texts: { "X-Scope-OrgID" = "kafka" }')
    named = {"source": "preset", "broker-label": "label"}
    stated = {named.get(key, key): text for key, text in texts.items()}
    return PrometheusSource(brokers=brokers, headers=headers, **stated)


def looks_back_s(query: str) -> float:
    """Longest look-back of the expression in s: nested ranges and offsets add up; that of recording rules is not known.

    Raises ConfigurationError where it does not end before a point: `@`, an offset into the future, a computed duration.
    """
    text = re.sub(r"\{[^}]*\}", "", NOT_READ.sub("", query))  # label values and comments may have brackets
    tokens = TOKEN.findall(text)
    return _longest_s(zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False), None)


def _longest_s(tokens: Iterator[tuple[str, str, str]], function: str | None) -> float:
    """Longest look-back up to the closing bracket, if any, of `function` (s); `tokens`: each between its neighbours."""
    longest_s = last_s = 0.0  # the latter of the last operand, which a range or an offset behind it makes longer
    for before, token, after in tokens:
        if token == "@":
            raise ConfigurationError("[prometheus] query: @ asks for one moment, not for that of the window")
        if token == ")" and function is not None:
            break
        if token == "(":
            longest_s, last_s = max(longest_s, last_s), _longest_s(tokens, before.lower())
        elif token.startswith("["):
            span, subquery, _ = token.strip("[]").partition(":")
            if subquery or function not in OF_LAST_TWO:
                last_s += _span_s(span)
        elif _is_offset(token, after):
            last_s += _span_s(after)
        elif not _is_offset(before, token):
            longest_s, last_s = max(longest_s, last_s), 0.0
    return max(longest_s, last_s)


def duration_s(text: str) -> float:
    """A Prometheus duration such as 1m30s in s; 0 for other texts."""
    parts = re.findall(r"([\d.]+)(ms|[smhdwy])", text)
    return sum(float(number) * UNITS[unit] for number, unit in parts) if "".join(map("".join, parts)) == text else 0.0


def _is_offset(token: str, after: str) -> bool:
    """Whether the token is the keyword; a metric may have the same name."""
    return token.lower() == "offset" and (after[:1].isdigit() or after in ("-", "+", "("))


def _span_s(text: str) -> float:
    """A range or an offset in s; Prometheus 3 takes plain seconds too."""
    span = "".join(text.split())
    seconds = float(span) if re.fullmatch(r"\d+(\.\d+)?", span) else duration_s(span)
    if not seconds and not re.fullmatch(r"0[a-z]*", span):
        raise ConfigurationError(
            f"[prometheus] query: {text!r} is no range or offset back in time, as in [30s] or offset 5m"
        )
    return seconds
