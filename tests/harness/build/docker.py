"""A Docker engine at a socket's file, in as far as it is asked for images, containers and networks."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

VERSION = re.compile(r"/v\d\.\d+(?=/)")
Answer = tuple[int, Any]


class FakeDocker:
    """What it has, and what it was asked to do. `root`: the folder of its data."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.images: set[str] = set()
        self.registry_answers = True
        """Whether images can be pulled."""
        self.pulled: list[str] = []
        self.containers: dict[str, Mapping[str, str]] = {}
        """Labels of each, by name."""

    def answer(self, method: str, path: str) -> Answer:
        """Return status and body."""
        at, query = urlsplit(path), parse_qs(urlsplit(path).query)
        parts = unquote(VERSION.sub("", at.path)).strip("/").split("/")
        match method, parts:
            case "GET", ["version"]:
                return 200, {"ApiVersion": "1.44"}
            case "GET", ["_ping"]:
                return 200, "OK"
            case "GET", ["info"]:
                return 200, {"DockerRootDir": str(self.root)}
            case "GET", ["images", *name, "json"]:
                image = "/".join(name)
                there = image in self.images
                return (200, {"Id": image, "RepoTags": [image]}) if there else (404, {"message": "no such image"})
            case "POST", ["images", "create"] if not self.registry_answers:
                return 500, {"message": "no route to the registry"}
            case "POST", ["images", "create"]:
                image = f"{query['fromImage'][0]}:{query['tag'][0]}"
                self.pulled.append(image)
                self.images.add(image)
                return 200, {}
            case "GET", ["containers", "json"]:
                return 200, [{"Id": name} for name in self.containers]
            case "GET", ["containers", name, "json"]:
                return 200, {"Id": name, "Name": f"/{name}", "Config": {"Labels": self.containers[name]}}
            case "DELETE", ["containers", name]:
                del self.containers[name]
                return 204, None
            case "GET", ["networks"]:
                return 200, []
            case _:
                return 404, {"message": f"page not found: {method} {path}"}


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@contextmanager
def engine(docker: FakeDocker, socket: Path) -> Iterator[None]:
    """Serve the engine at a socket's file."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body = docker.answer(self.command, self.path)
            data = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _answer

        def log_message(self, *_: object) -> None: ...

    with _Server(str(socket), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield
        server.shutdown()
        thread.join()
