"""HTTP to servers that the run itself has started on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import requests


def ask_here(
    url: str, method: str = "GET", body: Mapping[str, object] | None = None, *, timeout_s: float
) -> requests.Response:
    """Return the answer, once it is complete. Raises requests.RequestException, for an error status too."""
    import requests  # takes 0.1 s, and the command line imports the modules that ask

    with requests.Session() as session:
        session.trust_env = False  # loopback: never by an HTTP proxy
        reply = session.request(method, url, json=body, timeout=timeout_s)
    reply.raise_for_status()
    return reply
