"""Dask schedulers: the run's own, with TLS by a certificate of the run, or a running scheduler, which is checked.

The run's key proves that a process is the run's: it goes to hosts in their ssh connections, and to no file that stays.
Dask's own `Security.temporary` is not used: its certificate is valid from now on, and a host whose wall clock is a
second behind refuses it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from distributed import Client, LocalCluster
from distributed.core import rpc
from distributed.security import Security

from perfgate.model.errors import ConfigurationError

CONNECT_S = 15.0
ANSWER_S = 5.0
"""A host that has not answered within this time is lost."""
SETTINGS = {
    "distributed.worker.daemon": False,
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    # Dask's work for its users' tasks every 10 and 20 ms: 2.5 % of a core on each host, 0.4 % without (measured).
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
}
LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - connections need the run's key
WHERE = 'a scheduler says where it is as it starts: "Scheduler at: tcp://..."'
VALID = timedelta(days=30)
"""Before and after now: the most that a host's wall clock may be wrong by, and the longest run."""
NAME = "kafka-perf-gate-run"
ALLOWED = ("digital_signature", "key_cert_sign")
USES = (
    *ALLOWED,
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
"""Of a key, as X.509 names them."""


def check_scheduler(address: str, connect_s: float = CONNECT_S, answer_s: float = ANSWER_S) -> None:
    """Check that a Dask scheduler is at the address. Raises ConfigurationError with what is there in its place.

    A client bounds the connection by itself, and waits for ever for the first message of whatever accepts it: here that
    is waited for `answer_s` at most, after `connect_s` for the connection.
    """
    try:
        asyncio.run(asyncio.wait_for(_identity(address, connect_s), connect_s + answer_s))
    except TimeoutError as error:
        raise ConfigurationError(
            f"--hosts={address}: something takes connections there and says nothing, as a Dask scheduler's dashboard "
            f"does, or a scheduler that hangs; {WHERE}"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"--hosts={address}: no Dask scheduler answers there: {error}") from error
    except Exception as error:  # from the answer of another protocol or version
        raise ConfigurationError(
            f"--hosts={address}: what answers there is no Dask scheduler of this version: {error!r}; {WHERE}"
        ) from error


async def _identity(address: str, connect_s: float) -> None:
    async with rpc(address, timeout=connect_s) as scheduler:  # type: ignore[no-untyped-call]
        await scheduler.identity(n_workers=-1)


def client_of(address: object, security: Security | None = None, connect_s: float = CONNECT_S) -> Client:
    """A client of the scheduler at this address. Raises OSError, TimeoutError when none answers within `connect_s`."""
    return Client(address, timeout=connect_s, direct_to_workers=True, security=security)  # type: ignore[no-untyped-call]


def own_cluster(keys: tuple[str, str], *, workers: int = 0, host: str = LOOPBACK, port: int = 0) -> LocalCluster:
    """A scheduler here, with workers; TLS, for other users reach loopback too. Raises OSError, RuntimeError."""
    return LocalCluster(  # type: ignore[no-untyped-call]
        security=security(*keys),
        protocol="tls://",
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=0,
        host=host,
        scheduler_port=port,
        dashboard_address=f"{LOOPBACK}:0",
        scheduler_kwargs={"dashboard": False},
        silence_logs=logging.CRITICAL,
    )


def certificate_and_key() -> tuple[str, str]:
    """A new self-signed certificate and its key, as PEM."""
    from cryptography import x509  # agents get the certificate, and need not have the package
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        # From Python 3.13 on an authority is refused that does not state these (VERIFY_X509_STRICT).
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.KeyUsage(**{use: use in ALLOWED for use in USES}), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), text.decode()


def security(certificate: str, key: str) -> Security:
    """Security by which each end of a connection proves that it has the key."""
    roles = ("client", "scheduler", "worker")
    return Security(  # type: ignore[no-untyped-call]
        require_encryption=True,
        tls_ca_file=certificate,
        **{f"tls_{role}_cert": certificate for role in roles},
        **{f"tls_{role}_key": key for role in roles},
    )
