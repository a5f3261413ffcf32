"""The Docker engine of this machine: images that it has or pulls, and leftovers of killed runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import docker
import docker.constants
import docker.errors
import requests
from testcontainers.core.docker_client import get_docker_host

from perfgate.host.disk import check_disk
from perfgate.host.journal import is_alive
from perfgate.host.ports import is_this_machine
from perfgate.model.errors import ConfigurationError

ENGINE_TIMEOUT_S = 8
"""For the answer to a ping."""
OWNER = "kafka-perf-gate.owner"
"""Label of everything that a run creates: the mark of its process."""
DockerErrors = (docker.errors.DockerException, requests.RequestException)


def words_of(error: Exception) -> str:
    explanation = getattr(error, "explanation", None)
    return str(explanation or error).strip()


def docker_engine() -> docker.DockerClient:
    """The Docker engine. Raises ConfigurationError when none answers, or it is on another machine."""
    try:
        client_of_engine(ENGINE_TIMEOUT_S).ping()
        return client_of_engine()
    except DockerErrors as error:
        raise ConfigurationError(
            f"the target 'containers' needs a Docker engine, and none answers ({words_of(error)}); "
            "start one, set DOCKER_HOST, or use --target embedded, which needs none"
        ) from None


def client_of_engine(timeout_s: int = docker.constants.DEFAULT_TIMEOUT_SECONDS) -> docker.DockerClient:
    """A client of the engine that testcontainers starts containers on: of its own file, DOCKER_HOST, Docker's context.

    The brokers' ports are published on the loopback of the engine's machine: raises ConfigurationError for another one,
    before anything is asked of it by ssh. Raises DockerErrors.
    """
    stated = {"DOCKER_HOST": host} if (host := get_docker_host()) else {}
    if host and host.startswith("ssh:"):
        refuse_elsewhere(host)
    client = docker.from_env(timeout=timeout_s, environment={**os.environ, **stated})
    refuse_elsewhere(client.api.base_url)
    return client


def refuse_elsewhere(base_url: str) -> None:
    at = urlsplit(base_url)
    if at.scheme.startswith("http+") or is_this_machine(at.hostname or ""):  # http+docker: a socket's file
        return
    raise ConfigurationError(
        f"the target 'containers': the Docker engine is at {at.netloc} (DOCKER_HOST, or Docker's context), which is "
        "another machine, and its brokers could not be reached at 127.0.0.1: run the gate on that machine, or "
        "(docker-in-docker) share the engine's network with the job; --target embedded needs no engine"
    )


def check_room(needed_bytes: float, note: Callable[[str], None]) -> None:
    """Raise ConfigurationError when the engine's folder has too little room, once leftovers of killed runs are gone."""
    engine = docker_engine()
    for leftover in remove_leftovers(engine):
        note(f"removed {leftover}, left by a run that was killed")
    folder = Path(engine.info().get("DockerRootDir", ""))
    if folder.is_absolute() and folder.is_dir():
        check_disk(needed_bytes, folder)


def have_images(images: Iterable[str], say: Callable[[str], None], *, option: str) -> None:
    """Pull images that the engine lacks, else raise ConfigurationError; `option` names another image of the brokers."""
    engine = docker_engine()
    for image in sorted({*images}):
        try:
            try:
                engine.images.get(image)
            except docker.errors.ImageNotFound:
                say(f"{image}: pulling it, once")
                engine.images.pull(image)
        except DockerErrors as error:
            raise ConfigurationError(
                f"image {image} is not on this machine and cannot be pulled: {words_of(error)}; "
                f"name another with {option}"
            ) from None


def remove_leftovers(engine: docker.DockerClient) -> list[str]:
    """Remove containers and networks whose run is no longer alive on this machine; return their names.

    Ryuk does the same within seconds where it may run: the engine refuses to remove what Ryuk is removing (409), and
    a network that still has containers (403).
    """
    removed = []
    for container in engine.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True):
        if not is_alive(container.labels[OWNER]):
            with suppress(docker.errors.APIError):
                container.remove(force=True, v=True)
                removed.append(str(container.name))
    for network in engine.networks.list(filters={"label": OWNER}):
        if not is_alive(network.attrs["Labels"][OWNER]):
            with suppress(docker.errors.APIError):
                network.remove()
                removed.append(str(network.name))
    return removed
