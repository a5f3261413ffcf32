"""Requests to the web service of Pulsar's brokers: fail-over between them, redirects, TLS, tokens, and errors.

A broker redirects a request about a topic of another broker to that broker. `requests` would follow without the token,
so that redirects are followed here; never from https to http.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter

from perfgate.model import Settings
from perfgate.model.errors import BrokersFailedError, ConfigurationError, TargetError
from perfgate.model.secret import redacted, revealed
from perfgate.systems.pulsar.client import TLS_PLUGINS, TOKEN_PLUGINS

CONNECT_S = 3.0
REQUEST_TIMEOUT_S = 20.0
MOST_REDIRECTS = 5
MOST_REASON = 500
"""Largest number of characters kept of a broker's reason: for an internal error it sends the whole stack trace."""
NOWHERE_ELSE: Mapping[str, str] = {}
UNAVAILABLE = (502, 503, 504)
"""Status codes of a broker, or of a proxy before it, after which another broker is asked."""


class RefusedError(TargetError):
    """A refusal (HTTP 4xx), or no broker's answer. `repeated`: an earlier try may have been carried out."""

    def __init__(self, doing: str, status: int, reason: str, *, repeated: bool = False) -> None:
        super().__init__(f"{doing}: {reason} (HTTP {status})")
        self.status, self.reason, self.repeated = status, reason, repeated


class FailedRequestError(BrokersFailedError):
    """A broker's internal error, with its reason."""

    def __init__(self, doing: str, status: int, reason: str) -> None:
        super().__init__(f"{doing}: {reason} (HTTP {status})")
        self.status, self.reason = status, reason


class WebService:
    """The web service of a cluster, by the addresses of some of its brokers or of a proxy."""

    def __init__(
        self,
        urls: Sequence[str],
        client: Settings = (),
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        tries: int = 2,
        reached: Mapping[str, str] = NOWHERE_ELSE,
    ) -> None:
        """`urls`: as http://host:port; `client`: Pulsar's client settings (authPlugin, tlsTrustCertsFilePath, ...).

        Each request goes to the address that answered last, then to the others, `tries` times round, `timeout_s` each.
        `reached`: addresses here by those of another network that brokers redirect to. Raises ConfigurationError.
        """
        self.urls = tuple(url.strip().rstrip("/") for url in urls)
        for url in self.urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
                raise ConfigurationError(f"web service address {redacted(url)!r}: it must be http(s)://host:port")
        if not self.urls:
            raise ConfigurationError("no web service address of the brokers is known")
        self.reached = reached
        self._timeout_s, self._tries, self._preferred = timeout_s, tries, 0
        self._client, self._settings = client, dict(client)
        self._local = threading.local()
        self._session()

    def impatient(self, within_s: float) -> Self:
        """The service of the same cluster that asks each address once, and waits this long for its answer (s)."""
        return type(self)(self.urls, self._client, timeout_s=within_s, tries=1, reached=self.reached)

    def get(self, path: str, doing: str, at: str = "", **query: str) -> Any:
        """The answer to a GET, as `ask`."""
        return self.ask("GET", path, doing, query=query, at=at)

    def ask(
        self,
        method: str,
        path: str,
        doing: str,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        at: str = "",
    ) -> Any:
        """The answer's JSON, its text where it is no JSON, None where it is empty.

        `doing` begins the message of an error; `at`: ask this address only. Raises RefusedError (HTTP 4xx),
        FailedRequestError (5xx), BrokersFailedError, `perhaps_late`, without an answer.
        """
        urls = (at,) if at else self.urls
        last: Exception | None = None
        for number in range(len(urls) * self._tries):
            which = (self._preferred + number) % len(urls)
            try:
                answer = self._followed(method, f"{urls[which]}{path}", body, query)
            except requests.RequestException as error:
                last = error
                continue
            if answer.status_code in UNAVAILABLE:
                last = FailedRequestError(doing, answer.status_code, _reason(answer))
                continue
            self._preferred = self._preferred if at else which
            return _content(answer, doing, repeated=last is not None)
        if isinstance(last, FailedRequestError):
            raise BrokersFailedError(str(last), perhaps_late=True) from last
        raise BrokersFailedError(f"{doing}: {_words(last)}", perhaps_late=True) from last

    def _followed(self, method: str, url: str, body: object, query: Mapping[str, str] | None) -> requests.Response:
        for _ in range(1 + MOST_REDIRECTS):
            answer = self._session().request(
                method,
                url,
                params=query,
                json=body,
                headers=self._headers(),
                timeout=(CONNECT_S, self._timeout_s),
                allow_redirects=False,
            )
            where = answer.headers.get("Location", "")
            if not (300 <= answer.status_code < 400 and where):
                return answer
            before, url, query = url, self._from_here(urljoin(url, where)), None
            if before.startswith("https:") and not url.startswith("https:"):
                raise requests.ConnectionError(f"{before} leads to {url}, which is clear text: not followed")
        raise requests.TooManyRedirects(f"brokers name one another as the owner, {MOST_REDIRECTS} times: {url}")

    def _from_here(self, url: str) -> str:
        parts = urlsplit(url)
        return parts._replace(netloc=self.reached.get(parts.netloc, parts.netloc)).geturl()

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token := token_of(self._settings):
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            session = requests.Session()
            session.trust_env = False  # proxies and passwords of the environment are for other servers
            settings = self._settings
            known = (*TOKEN_PLUGINS, *TLS_PLUGINS)
            if (plugin := settings.get("authPlugin", "")) and plugin not in known:
                raise ConfigurationError(f"authPlugin {plugin!r} is not known here; known: {', '.join(known)}")
            if settings.get("tlsAllowInsecureConnection", "false").lower() == "true":
                session.verify = False
                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the start notes it once
            elif trusted := settings.get("tlsTrustCertsFilePath"):
                session.verify = trusted
            if certificate := settings.get("tlsCertificateFilePath"):
                session.cert = (certificate, settings.get("tlsKeyFilePath", certificate))
            if settings.get("tlsHostnameVerificationEnable", "true").lower() == "false":
                session.mount("https://", _AnyName())
            self._local.session = session
        cached: requests.Session = self._local.session
        return cached


class _AnyName(HTTPAdapter):
    """Accepts a certificate for another host's name."""

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        super().init_poolmanager(*arguments, assert_hostname=False, **named)


def token_of(client: Mapping[str, str]) -> str:
    """The plain token of these client settings; empty where they state none.

    `authParams` is the token, "token:" and the token, or "file:" and the path of a file, which is read each time: it
    may be renewed. Raises ConfigurationError for a file that cannot be read.
    """
    if client.get("authPlugin", "") not in TOKEN_PLUGINS:
        return ""
    stated = revealed({"authParams": client.get("authParams", "")})["authParams"]
    if stated.startswith("file:"):
        path = Path(urlsplit(stated).path)
        try:
            return path.read_text().strip()
        except OSError as error:
            raise ConfigurationError(f"the token's file {path}: {error.strerror or error}") from None
    return stated.removeprefix("token:")


def _content(answer: requests.Response, doing: str, *, repeated: bool) -> Any:
    if answer.status_code >= 500:
        raise FailedRequestError(doing, answer.status_code, _reason(answer))
    if answer.status_code >= 400:
        raise RefusedError(doing, answer.status_code, _reason(answer), repeated=repeated)
    try:
        return answer.json() if answer.content else None
    except ValueError:
        if answer.text.lstrip().startswith("<"):
            reason = "a web page, as of another server or of a proxy's log-in, and no answer of a broker"
            raise RefusedError(doing, answer.status_code, reason, repeated=repeated) from None
        return answer.text


def _reason(answer: requests.Response) -> str:
    try:
        content = answer.json()
        text = str(content.get("reason", "")) if isinstance(content, dict) else str(content)
    except ValueError:
        text = "" if answer.text.lstrip().startswith("<") else answer.text
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    kept = [*lines[:1], *[line for line in lines[1:] if line.startswith("Caused by:")][-1:]]
    return redacted("; ".join(kept) or answer.reason or "refused")[:MOST_REASON]


def _words(error: Exception | None) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return f"TLS failed: {redacted(str(error))[:MOST_REASON]}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    return redacted(str(error))[:MOST_REASON]
