"""Pulsar brokers in this process: as much of their web service as the suite asks for, over real HTTP."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Answer = tuple[int, Any]
NO_CONTENT: Answer = (204, None)
PUTS = {"compactionThreshold"}
REPORTED = {
    "persistence": "persistence",
    "retention": "retention_policies",
    "messageTTL": "message_ttl_in_seconds",
    "deduplication": "deduplicationEnabled",
    "compactionThreshold": "compaction_threshold",
    "publishRate": "publishMaxMessageRate",
    "dispatchRate": "topicDispatchRate",
}
BY_CLUSTER = {"publishRate", "dispatchRate"}
DEFAULT = (2, 2, 2)


@dataclass
class Partition:
    """One that a broker has loaded: its ledgers' quorums and messages, an entry each number of them."""

    quorums: list[tuple[int, int, int]]
    entries: list[list[int]] = field(default_factory=lambda: [[]])
    loaded_at: int = 0
    """Entries that were there when its broker loaded it: its counters begin then."""
    counted_too_much: int = 0
    subscriptions: set[str] = field(default_factory=set)

    @property
    def all_entries(self) -> list[int]:
        return [entry for ledger in self.entries for entry in ledger]


@dataclass
class Request:
    broker: int
    method: str
    path: str
    token: str
    body: Any


class FakePulsar:
    """A cluster with `brokers` brokers (1 ...), each with an address of its own."""

    def __init__(self, brokers: int = 3) -> None:
        self.tenants: dict[str, Any] = {}
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.topics: dict[str, int] = {}
        self.partitions: dict[str, Partition] = {}
        self.dynamic: dict[str, str] = {}
        self.static = {
            "dispatcherMaxRoundRobinBatchSize": "20",
            "webServicePort": "8080",
            "tlsKeyStorePassword": "hush",
        }
        self.files: dict[int, dict[str, str]] = {}
        """Settings of a broker's own file, which other brokers do not have."""
        self.lag: dict[int, dict[str, str]] = {}
        """Brokers that go on with these values."""
        self.stale_policies = 0
        """Ledgers that are still opened with the quorums from before a policy."""
        self.page = 10_000
        self.further_on = 0
        """Entries that subscriptions have left behind."""
        self.requests: list[Request] = []
        self.first: list[tuple[Callable[[Request], bool], Answer | None]] = []
        """Answers that are given instead, each once, to the first request that fits; None: the connection breaks."""
        self.token = ""
        """Required of each request, where there is one."""
        self.superuser = True
        self.tenant_admin = True
        self.name, self.metadata = "kpg", "127.0.0.1:2181"
        self.sick: set[int] = set()
        """Brokers that say they are ready, and whose health check fails."""
        self.unready: set[int] = set()
        """Brokers that say they are not ready."""
        self.silent: set[int] = set()
        """Brokers that take part in the cluster and answer nothing."""
        self.down: set[int] = set()
        self.writable_bookies = 3
        """Of those that are listed, which are three."""
        self.addresses: dict[int, str] = {}
        self.inside = ""
        """The URL that each broker has for itself, where it is not the one that it is reached at."""
        self.scheme = "http"
        self.count = brokers

    @property
    def urls(self) -> list[str]:
        return [f"{self.scheme}://{at}" for at in self.addresses.values()]

    def owner(self, path: str) -> int:
        """Of a topic's partitions the first is the first broker's."""
        local = path.rpartition("-partition-")[2]
        return int(local) % self.count + 1 if local.isdigit() else 1

    def unload(self, name: str) -> None:
        """Have a broker load the partition anew: a ledger more, and its counters begin again."""
        partition = self.partitions[name]
        partition.loaded_at = len(partition.all_entries)
        if partition.entries[-1]:
            partition.entries.append([])
            partition.quorums.append(partition.quorums[-1])

    def answer(self, broker: int, request: Request) -> tuple[Answer, str]:
        """Return status and body, and where a redirect leads."""
        self.requests.append(request)
        if broker in self.down or broker in self.silent:
            raise ConnectionResetError
        if self.token and request.token != self.token:
            return (401, {"reason": "Authentication required"}), ""
        for at, (fits, given) in enumerate(self.first):
            if fits(request):
                del self.first[at]
                if given is None:
                    raise ConnectionResetError
                return given, ""
        parts = [unquote(part) for part in urlsplit(request.path).path.strip("/").split("/")]
        match parts:
            case ["lookup", "v2", "topic", "persistent", tenant, namespace, local]:
                name = f"{tenant}/{namespace}/{local}"
                if name not in self.partitions and local.rpartition("-partition-")[0] == "":
                    return (404, {"reason": "Topic not found"}), ""
                return self._at(broker, name, request) or ((200, self._addresses(self.owner(local))), "")
            case ["admin", "v2", "persistent", tenant, namespace]:
                return self._listed(f"{tenant}/{namespace}", self.partitions), ""
            case ["admin", "v2", "persistent", tenant, namespace, local, *rest] if rest != ["partitions"]:
                name = f"{tenant}/{namespace}/{local}"
                if local == "partitioned":
                    return self._listed(f"{tenant}/{namespace}", self.topics), ""
                return self._at(broker, name, request) or (self._of_partition(name, rest, request), "")
            case _:
                return self._of_cluster(parts, broker, request), ""

    def _listed(self, namespace: str, names: Iterable[str]) -> Answer:
        if namespace not in self.namespaces:
            return 404, {"reason": "Namespace not found"}
        return 200, [f"persistent://{one}" for one in names if one.startswith(f"{namespace}/")]

    def _at(self, broker: int, name: str, request: Request) -> tuple[Answer, str] | None:
        if (owner := self.owner(name)) == broker or owner in self.down:
            return None
        return (307, None), f"{self.scheme}://{self.addresses[owner]}{request.path}"

    def _addresses(self, broker: int) -> dict[str, str]:
        return {"brokerUrl": f"pulsar://broker-{broker}:6650", "httpUrl": f"http://{self.addresses[broker]}"}

    def _of_partition(self, name: str, rest: list[str], request: Request) -> Answer:
        topic = name.rpartition("-partition-")[0]
        if topic not in self.topics and name not in self.partitions:
            return 404, {"reason": f"Topic persistent://{name} not found"}
        if rest == [] and request.method == "DELETE":
            self.partitions.pop(name, None)
            return NO_CONTENT
        if name not in self.partitions:
            if (quorums := self._quorums(name))[0] > self.writable_bookies:
                return 500, {
                    "reason": "\n --- An unexpected error ---\n\nat x\nCaused by: Not enough non-faulty bookies"
                }
            self.partitions[name] = Partition([quorums])
        partition = self.partitions[name]
        match rest, request.method:
            case ["subscription", subscription], "PUT":
                if subscription in partition.subscriptions:
                    return 409, {"reason": "Subscription already exists"}
                partition.subscriptions.add(subscription)
                return NO_CONTENT
            case ["subscription", subscription, "analyzeBacklog"], "POST":
                if subscription not in partition.subscriptions:
                    return 404, {"reason": f"Subscription {subscription} not found"}
                return 200, self._analyzed(partition, request.body)
            case ["stats"], "GET":
                since = sum(partition.all_entries[partition.loaded_at :]) + partition.counted_too_much
                of_all = self.namespaces.get(name.rpartition("/")[0], {})  # also of partitions that are open
                status = "Enabled" if of_all.get("deduplicationEnabled") else "Disabled"
                return 200, {"msgInCounter": since, "deduplicationStatus": status}
            case ["internalStats"], "GET":
                return 200, {
                    "entriesAddedCounter": len(partition.all_entries) - partition.loaded_at,
                    "numberOfEntries": len(partition.all_entries),
                    "pendingAddEntriesCount": 0,
                    "ledgers": [
                        {"ledgerId": number, "entries": len(entries), "metadata": metadata(*quorums)}
                        for number, (entries, quorums) in enumerate(
                            zip(partition.entries, partition.quorums, strict=True)
                        )
                    ],
                }
            case _:
                return 405, "<html>no such method</html>"

    def _quorums(self, name: str) -> tuple[int, int, int]:
        stated = self.namespaces[name.rpartition("/")[0]].get("persistence")
        if self.stale_policies:
            self.stale_policies -= 1
            return DEFAULT
        if not stated:
            return DEFAULT
        return stated["bookkeeperEnsemble"], stated["bookkeeperWriteQuorum"], stated["bookkeeperAckQuorum"]

    def _analyzed(self, partition: Partition, body: Any) -> dict[str, Any]:
        places = [(ledger, entry) for ledger, held in enumerate(partition.entries) for entry in range(len(held))]
        start = (body["ledgerId"], body["entryId"]) if body else (0, 0)
        ahead = [place for place in places[self.further_on :] if place >= start]
        read = ahead[: self.page]
        found = {
            "entries": len(read),
            "messages": sum(partition.entries[ledger][entry] for ledger, entry in read),
            "aborted": len(ahead) > len(read),
        }
        return {**found, "lastMessageId": f"{read[-1][0]}:{read[-1][1]}"} if read else found

    def _of_cluster(self, parts: list[str], broker: int, request: Request) -> Answer:
        match parts[2:], request.method:
            case ["clusters"], "GET":
                return 200, [self.name]
            case ["brokers", "version"], "GET":
                return 200, "4.0.8"
            case ["brokers", "ready"], "GET":
                return (500, {"reason": "not yet"}) if broker in self.unready else (200, "ok")
            case ["brokers" | "bookies" | "broker-stats", *_], _ if not self.superuser:
                return 403, {"reason": "This operation requires super-user access"}
            case ["brokers", "internal-configuration"], "GET":
                return 200, {"metadataStoreUrl": f"zk:{self.metadata}", "ledgersRootPath": "/ledgers"}
            case ["broker-stats", "load-report"], "GET":
                inside = self.inside or f"http://{self.addresses[broker]}"
                return 200, {"webServiceUrl": inside, "cpu": {}, "bundles": []}
            case ["bookies", "all"], "GET":
                return 200, {"bookies": [{"bookieId": f"bookie-{number}:3181"} for number in (2, 0, 1)]}
            case ["brokers"], "GET":
                return 200, [at for number, at in self.addresses.items() if number not in self.down]
            case ["brokers", "health"], "GET":
                return (500, {"reason": "no message came back"}) if broker in self.sick else (200, "ok")
            case ["brokers", "configuration"], "GET":
                return 200, [name for name in self.static if name != "webServicePort"]
            case ["brokers", "configuration", "values"], "GET":
                return 200, self.dynamic
            case ["brokers", "configuration", "runtime"], "GET":
                own = {**self.static, **self.files.get(broker, {})}
                return 200, {**own, **self.dynamic, **self.lag.get(broker, {})}
            case ["brokers", "configuration", name, value], "POST":
                if name == "webServicePort":
                    return 412, {"reason": "Can't update non-dynamic configuration"}
                self.dynamic[name] = value
                return 200, None
            case ["brokers", "configuration", name], "DELETE":
                self.dynamic.pop(name, None)
                return 200, None
            case ["tenants", tenant], "PUT":
                self.tenants[tenant] = request.body
                return NO_CONTENT
            case ["tenants"], "GET":
                return 200, list(self.tenants)
            case ["namespaces", tenant], "GET":
                if not self.tenant_admin:
                    return 403, {"reason": "Unauthorized to validateTenantOperation for role [gate]"}
                return 200, [name for name in self.namespaces if name.startswith(f"{tenant}/")]
            case ["namespaces", tenant, namespace, *rest], _:
                return self._of_namespace(f"{tenant}/{namespace}", rest, request)
            case ["persistent", tenant, namespace, local, "partitions"], _:
                return self._of_topic(f"{tenant}/{namespace}", local, request)
            case _:
                return 404, "<html>nothing there</html>"

    def _of_namespace(self, name: str, rest: list[str], request: Request) -> Answer:
        if not rest and request.method == "PUT" and not self.tenant_admin:
            return 403, {"reason": "Unauthorized to validateTenantOperation for role [gate]"}
        if not rest and request.method == "PUT":
            if name in self.namespaces:
                return 409, {"reason": "Namespace already exists"}
            self.namespaces[name] = dict(request.body)
            return NO_CONTENT
        if name not in self.namespaces:
            return 404, {"reason": "Namespace not found"}
        policies = self.namespaces[name]
        match rest, request.method:
            case [], "GET":
                return 200, policies
            case [], "DELETE":
                if any(topic.startswith(f"{name}/") for topic in self.topics):
                    return 409, {"reason": "Cannot delete non empty namespace"}
                del self.namespaces[name]
                return NO_CONTENT
            case ["properties"], "GET":
                return 200, policies.get("properties", {})
            case [endpoint], "DELETE":
                policies.pop(REPORTED[endpoint], None)
                return NO_CONTENT
            case [endpoint], method if method == ("PUT" if endpoint in PUTS else "POST"):
                policies[REPORTED[endpoint]] = {"kpg": request.body} if endpoint in BY_CLUSTER else request.body
                return NO_CONTENT
            case _:
                return 405, "<html>no such method</html>"

    def _of_topic(self, namespace: str, local: str, request: Request) -> Answer:
        name = f"{namespace}/{local}"
        if namespace not in self.namespaces:
            return 404, {"reason": "Namespace not found"}
        match request.method:
            case "PUT" if name in self.topics:
                return 409, {"reason": "This topic already exists"}
            case "PUT":
                self.topics[name] = request.body
                return NO_CONTENT
            case _ if name not in self.topics:
                return 404, {"reason": f"Topic persistent://{name} not found"}
            case "GET":
                return 200, {"partitions": self.topics[name]}
            case _:
                del self.topics[name]
                for each in [each for each in self.partitions if each.startswith(f"{name}-partition-")]:
                    del self.partitions[each]
                return NO_CONTENT


def metadata(ensemble: int, write: int, ack: int) -> str:
    """A ledger's metadata in BookKeeper's words, after one change of its ensemble."""
    hosts = [f"bookie-{number}:3181" for number in range(ensemble)]
    return (
        f"LedgerMetadata{{formatVersion=3, ensembleSize={ensemble}, writeQuorumSize={write}, ackQuorumSize={ack}, "
        f"state=OPEN, digestType=CRC32C, password=OMITTED, ensembles={{0=[gone:3181, gone:3182], "
        f"17=[{', '.join(hosts)}]}}, customMetadata={{application=base64:cHVsc2Fy}}}}"
    )


@contextmanager
def served(pulsar: FakePulsar, wrap: Callable[[ThreadingHTTPServer], None] = lambda _: None) -> Iterator[FakePulsar]:
    """Serve the brokers on free ports of this machine; `wrap` changes each server's socket (TLS)."""
    with ExitStack() as stack:
        for broker in range(1, pulsar.count + 1):
            server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(pulsar, broker))
            wrap(server)
            stack.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            pulsar.addresses[broker] = f"127.0.0.1:{server.server_address[1]}"
        yield pulsar


def _handler(pulsar: FakePulsar, broker: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            try:
                (status, content), where = pulsar.answer(broker, Request(broker, self.command, self.path, token, body))
            except ConnectionResetError:
                self.close_connection = True
                self.connection.close()
                return
            data = b"" if content is None else (content if isinstance(content, str) else json.dumps(content)).encode()
            self.send_response(status)
            for name, value in {"Location": where, "Content-Length": str(len(data))}.items():
                if value:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = _answer

        def log_message(self, *_: object) -> None: ...

        def handle(self) -> None:
            with suppress(OSError, ValueError):  # a connection that this server has broken
                super().handle()

    return Handler


def asked(pulsar: FakePulsar, method: str, ending: str = "") -> list[str]:
    """Return the paths of requests of this method that end so, without their query."""
    paths = [urlsplit(one.path).path for one in pulsar.requests if one.method == method]
    return [path for path in paths if path.endswith(ending)]
