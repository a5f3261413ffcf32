"""Client of one Prometheus: queries, its scrape interval and its clock."""

from __future__ import annotations

import copy
import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry
from urllib3.util.ssl_ import create_urllib3_context

from perfgate.host.clocks import DRIFT, Estimate
from perfgate.host.ports import is_this_machine
from perfgate.metrics.prometheus_source import OF_KAFKA, PRESETS, PrometheusSource, duration_s
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import Secret, redacted

REQUEST_TIMEOUT_S = 10
EXCHANGES, CLOSE_S = 3, 0.02
"""The shortest round trip of this many exchanges gives the clock, or the first that is this short."""
MOVED_S = 0.25
"""Less than this, beside the drift of two slewed clocks, is no step of a clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    labels: Mapping[str, str]
    values: Sequence[tuple[float, float]]


def moved_by(before: Estimate, after: Estimate) -> float:
    """Seconds by which either clock was set between these looks; 0 when none certainly was."""
    moved = after.offset - before.offset
    even = before.bound + after.bound + MOVED_S + 2 * DRIFT * (after.at - before.at)
    return moved if abs(moved) > even else 0.0


class Prometheus:
    """Asks a Prometheus; every failure is a ConfigurationError with cause and remedy."""

    def __init__(self, source: PrometheusSource) -> None:
        self.source = source
        session = _Session([name for name, value in source.headers.items() if isinstance(value, Secret)])
        session.verify = source.ca or True
        headers = dict(source.headers)
        if source.token:
            headers["Authorization"] = Secret("Bearer " + source.token)
        auth: Any = (source.username, source.password) if source.username else None
        if auth is None and any(name.lower() == "authorization" for name in headers):
            auth = _as_it_is  # without any, an entry of ~/.netrc would take the header's place
        url, retry = source.url.rstrip("/"), Retry(total=1, backoff_factor=0.2, status_forcelist=[502, 503, 504])
        self._client = PrometheusConnect(
            url=url, headers=headers, auth=auth, session=session, timeout=REQUEST_TIMEOUT_S, retry=retry
        )
        here = is_this_machine(urlsplit(url).hostname or "")
        session.mount(url, (_Direct if here else _AsOthers)(max_retries=retry))
        self.exporter = source.preset
        """The preset whose series are asked for; empty: in each window the first that has any."""
        self.first = self.look()
        """The clock when the run began."""

    def of(self, source: PrometheusSource) -> Prometheus:
        """The same connection for other brokers that this Prometheus scrapes; `source` has its URL."""
        other = copy.copy(self)
        other.source, other.exporter = source, source.preset
        return other

    def look(self) -> Estimate:
        """Offset of Prometheus' clock from this machine's monotonic clock now. Raises ConfigurationError.

        A difference from the wall clock here that a round trip explains counts as none.
        """
        looks: list[Estimate] = []
        while len(looks) < EXCHANGES and min((look.bound for look in looks), default=1.0) > CLOSE_S:
            sent, wall_s = time.monotonic(), time.time() - time.monotonic()
            scalar = self._ask(lambda: self._client.custom_query("time()"), "time()")
            answered = time.monotonic()
            middle, bound_s = (sent + answered) / 2, (answered - sent) / 2
            ahead_s = float(scalar[1]) - middle
            ahead_s = ahead_s if abs(ahead_s - wall_s) > bound_s else wall_s
            looks.append(Estimate(at=middle, offset=ahead_s, bound=bound_s))
        return min(looks, key=lambda look: look.bound)

    def instant(self, query: str, at: float | None = None) -> list[Series]:
        """The series of an instant query: one pair each, or many for a range selector."""
        params = {"time": f"{at:.3f}"} if at is not None else None
        return [_series(entry) for entry in self._ask(lambda: self._client.custom_query(query, params=params), query)]

    def scrape_interval_s(self) -> float:
        """Longest scrape interval of the brokers' targets, or of all where none are selected, in s; 0: not known."""
        try:
            targets = self._client.get_targets(state="active")["activeTargets"]
            selected = self._selected()
            of_brokers = [target for target in targets if _place(target.get("labels", {})) in selected]
        except (PrometheusApiClientException, requests.RequestException, KeyError, TypeError):
            return 0.0
        return max((duration_s(target.get("scrapeInterval", "0s")) for target in of_brokers or targets), default=0.0)

    def _selected(self) -> set[tuple[str, str]]:
        """Job and instance of the targets that have the selected series; none where the source selects nothing."""
        source, selected = self.source, set()
        for name in [source.preset] if source.preset else OF_KAFKA:
            match = ",".join(filter(None, (PRESETS[name].match, source.match)))
            if source.query or not (source.preset or source.match):
                break
            with suppress(ConfigurationError):  # the start asks for the brokers, and reports it
                series = self.instant(f"{PRESETS[name].counter}{{{match}}}")
                selected |= {_place(entry.labels) for entry in series}
        return selected

    def _ask(self, call: Callable[[], Any], query: str) -> Any:
        url = self.source.url
        try:
            return call()
        except requests.exceptions.SSLError as error:
            raise ConfigurationError(
                f"Prometheus {url}: TLS failed ({redacted(str(error.args[0]))}); state its CA as [prometheus] ca"
            ) from None
        except requests.RequestException as error:
            raise ConfigurationError(
                f"Prometheus {url}: no answer ({error.__class__.__name__}); check [prometheus] url, and whether it runs"
            ) from None
        except PrometheusApiClientException as error:
            words = redacted(str(error))
            if "401" in words or "403" in words:
                raise ConfigurationError(
                    f"Prometheus {url}: it refused this client; check [prometheus] username, password, token or headers"
                ) from None
            raise ConfigurationError(f"Prometheus {url}: it refused the query {query!r}: {words}") from None


class _Session(requests.Session):
    """Keeps secret headers from where a redirect leads to, as requests does itself with Authorization alone."""

    def __init__(self, secret: Collection[str]) -> None:
        """`secret`: the headers' names."""
        super().__init__()
        self._secret = secret

    def rebuild_auth(self, prepared_request: Any, response: Any) -> None:
        super().rebuild_auth(prepared_request, response)  # type: ignore[no-untyped-call]
        if self.should_strip_auth(response.request.url, prepared_request.url):  # type: ignore[no-untyped-call]
            for name in self._secret:
                prepared_request.headers.pop(name, None)


class _AsOthers(HTTPAdapter):
    """Accepts authorities that state no key usage, as others do; Python 3.13 does not (VERIFY_X509_STRICT)."""

    def init_poolmanager(self, *given: Any, **named: Any) -> None:
        context = create_urllib3_context(verify_flags=ssl.VERIFY_X509_TRUSTED_FIRST)
        super().init_poolmanager(*given, **named, ssl_context=context)


class _Direct(_AsOthers):
    """Sends requests to the server itself, whatever HTTP proxy the environment names."""

    def send(self, *given: Any, **named: Any) -> requests.Response:
        return super().send(*given, **{**named, "proxies": None})


def _place(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("job", ""), labels.get("instance", "")


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _series(entry: Mapping[str, Any]) -> Series:
    pairs = entry["values"] if "values" in entry else [entry["value"]]
    return Series(labels=entry["metric"], values=[(float(at), float(value)) for at, value in pairs])
