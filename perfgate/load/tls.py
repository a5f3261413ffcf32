"""TLS between a run, its scheduler and the agents of its hosts: a certificate that is made for the run alone.

Who has its key is of the run, and nobody else: it goes to the hosts inside their ssh connections, and to no file that
stays. Dask's own `Security.temporary` is not used: its certificate is valid from now on, and a host whose wall clock is
a second behind refuses it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from distributed.security import Security

VALID = timedelta(days=30)
"""Before and after now: so wrong may a host's wall clock be, and so long may a run last."""
NAME = "kafka-perf-gate-run"
USES = {
    "digital_signature": True,
    "key_cert_sign": True,
    **dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    ),
}


def certificate_and_key() -> tuple[str, str]:
    """Return a new self-signed certificate and its key, as PEM."""
    from cryptography import x509  # agents are given what this makes
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
        .add_extension(x509.KeyUsage(**USES), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), text.decode()


def security(certificate: str, key: str) -> Security:
    """Return what makes each end of a connection prove that it has the key."""
    roles = ("client", "scheduler", "worker")
    return Security(  # type: ignore[no-untyped-call]
        require_encryption=True,
        tls_ca_file=certificate,
        **{f"tls_{role}_cert": certificate for role in roles},
        **{f"tls_{role}_key": key for role in roles},
    )
