"""The Docker engine of this machine: images are pulled as they are named, and one that nobody has is one error."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from urllib.parse import parse_qsl, urlsplit

import pytest
from testcontainers.core.config import testcontainers_config

from perfgate.host import docker_engine
from perfgate.model.errors import ConfigurationError

DIGEST = f"sha256:{'0123abcd' * 8}"
REFUSED = 400, {"message": "invalid reference format"}


class Engine(UnixStreamServer):
    """As much of an engine's interface as is asked for. It has no image, and pulls what it is asked to."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Request)
        self.pulled: list[dict[str, str]] = []
        self.refuses = ""
        """The method that it refuses an image's name to."""

    def answer(self, method: str, url: str) -> tuple[int, object]:
        parts = urlsplit(url)
        if parts.path.endswith("/version"):
            return 200, {"ApiVersion": "1.45"}
        if "/images/" in parts.path and method == self.refuses:
            return REFUSED
        if parts.path.endswith("/images/create"):
            self.pulled.append(dict(parse_qsl(parts.query)))
        elif "/images/" in parts.path and not self.pulled:
            return 404, {"message": "No such image"}
        return 200, {"Id": "i"}


class Request(BaseHTTPRequestHandler):
    server: Engine

    def _answer(self) -> None:
        status, said = self.server.answer(self.command, self.path)
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("engine") / "docker.sock"  # a socket's path is short
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    with Engine(path) as made:
        serving = threading.Thread(target=made.serve_forever, args=(0.01,))
        serving.start()
        yield made
        made.shutdown()
        serving.join()


@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [
        ("apache/kafka:4.3.1", "apache/kafka", "4.3.1"),
        ("apache/kafka", "apache/kafka", "latest"),
        ("registry.example:5000/kafka", "registry.example:5000/kafka", "latest"),
        (f"apache/kafka@{DIGEST}", "apache/kafka", DIGEST),
    ],
)
def test_an_image_that_is_not_here_is_pulled_as_it_is_named(
    engine: Engine, image: str, repository: str, tag: str
) -> None:
    """One by its digest was looked for under a tag that no registry has."""
    docker_engine.have_images([image], print, option="--kafka-image")
    assert engine.pulled == [{"fromImage": repository, "tag": tag}]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_image_that_cannot_be_had_is_one_error(engine: Engine, method: str) -> None:
    """A name that no image may have, as one with capitals, was a traceback."""
    engine.refuses = method
    with pytest.raises(ConfigurationError, match="cannot be pulled: invalid reference format; name another with --k"):
        docker_engine.have_images(["Apache/Kafka:4.3.1"], print, option="--kafka-image")


def context_at(host: str, folder: Path) -> None:
    """Have Docker's configuration in this folder use a context whose engine is at `host`."""
    meta = folder / "contexts" / "meta" / hashlib.sha256(b"other").hexdigest()
    meta.mkdir(parents=True)
    about = {"Name": "other", "Metadata": {}, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}
    (meta / "meta.json").write_text(json.dumps(about))
    (folder / "config.json").write_text(json.dumps({"currentContext": "other"}))


@pytest.mark.usefixtures("engine")
def test_the_engine_is_looked_at_that_containers_are_started_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of DOCKER_HOST had pulled the images, and brokers were started on the machine of testcontainers' file."""
    monkeypatch.setitem(testcontainers_config.tc_properties, "tc.host", "tcp://docker.invalid:2375")
    with pytest.raises(ConfigurationError, match=r"docker\.invalid"):
        docker_engine.have_images(["apache/kafka:4.3.1"], print, option="--kafka-image")


@pytest.mark.parametrize("of_context", [True, False])
def test_an_engine_that_is_reached_by_ssh_is_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, of_context: bool
) -> None:
    """It was taken for a socket's, so brokers were started there, of which none was ever ready here: BROKEN."""
    context_at(host := "ssh://build@docker.invalid", tmp_path)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "" if of_context else host)
    with pytest.raises(ConfigurationError, match=r"engine is at build@docker\.invalid \(DOCKER_HOST"):
        docker_engine.docker_engine()
