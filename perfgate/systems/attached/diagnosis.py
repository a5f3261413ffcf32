"""Diagnosis of a server that cannot be used, before anyone logs in: name, port, TLS; a line per cause and remedy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

CONNECT_TIMEOUT_S = 5.0
# OpenSSL's X509_V_ERR_* (x509_vfy.h)
EXPIRED, NOT_YET_VALID, HOST_MISMATCH, IP_MISMATCH = 10, 9, 62, 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Keys:
    """The target file's names for what a remedy mentions."""

    servers: str
    protocol: str
    """The setting that chooses TLS."""
    any_name: str
    """The setting that lets a certificate be for another name."""
    authority: str
    tls: str


def problem_of(server: str, context: Callable[[], ssl.SSLContext | None], keys: Keys) -> str:
    """Return why this server (host:port) cannot be used; empty: it can. `context` makes that of TLS; None: no TLS."""
    host, _, port = server.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S) as connection:
            if (tls := context()) is not None:
                with tls.wrap_socket(connection, server_hostname=host):
                    pass  # a broker that wants a certificate of ours says so later, at the log-in
    except (socket.gaierror, UnicodeError):  # UnicodeError: no name can read so
        return f"{server}: the host name does not resolve; check {keys.servers} and the DNS of this machine"
    except TimeoutError:
        return (
            f"{server}: no answer within {CONNECT_TIMEOUT_S:.0f} s; a firewall or a route drops what is sent there, or "
            "the port belongs to something else"
        )
    except ConnectionRefusedError:
        return f"{server}: nothing listens there (connection refused); check the port, and whether the broker runs"
    except ssl.SSLCertVerificationError as error:
        return f"{server}: {_certificate_problem(error, host, keys)}"
    except ssl.SSLError as error:
        if error.reason in {"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"}:
            return f"{server}: the listener does not speak TLS; check {keys.protocol} and the port"
        return f"{server}: the TLS handshake failed ({error.reason}); check the certificates and {keys.tls}"
    except OSError as error:
        return f"{server}: {error.strerror or error}; check {keys.servers} and the network of this machine"
    return ""


def context_of(
    *,
    authorities: str | None = None,
    folder: str | None = None,
    text: str | None = None,
    names: bool = True,
    verified: bool = True,
) -> ssl.SSLContext:
    """Return a client's context that trusts a PEM file, a folder of them or a text; none: this machine's authorities.

    `names`: whether certificates must be for the server's name; `verified`: whether they are looked at.
    """
    context = ssl.create_default_context(cafile=authorities, capath=folder, cadata=text)
    # As the clients look at certificates. From Python 3.13 on its default refuses authorities that all others accept,
    # as those that state no key usage (VERIFY_X509_STRICT).
    context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST
    context.check_hostname = names
    if not verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _certificate_problem(error: ssl.SSLCertVerificationError, host: str, keys: Keys) -> str:
    if error.verify_code == EXPIRED:
        return "the broker's certificate (or its issuer's) has expired; have it renewed"
    if error.verify_code == NOT_YET_VALID:
        return "the broker's certificate is not valid yet; check the clocks of this machine and the broker"
    if error.verify_code in (HOST_MISMATCH, IP_MISMATCH):
        return (
            f"the broker's certificate is not for the name {host!r}; use the name it was made for in "
            f"{keys.servers} or, knowing the risk, set {keys.any_name}"
        )
    return (
        f"the broker's certificate is of an unknown issuer ({error.verify_message}); state the CA that signed it as "
        f"{keys.authority}"
    )
