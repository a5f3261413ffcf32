"""Links of the embedded target's brokers that can be cut, by a proxy in each."""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.host.ports import HOST, free_ports
from perfgate.host.toxiproxy import ToxiproxyApi
from perfgate.model import ClusterSpec
from perfgate.systems.kafka.managed.brokers import broker_ids, quorum_ids


class SeverableLinks:
    """Proxies in all links of each broker of the embedded target: clients to it, brokers to it, and it to each
    controller.

    Requests of a broker itself to other brokers are not severed. That does not keep it in service: the controllers
    fence it and take it out of every in-sync set, until its heartbeats come again.
    """

    def __init__(self, spec: ClusterSpec, ports: Mapping[str, Mapping[int, int]]) -> None:
        links = {
            (broker, listener): ports[listener][broker]
            for broker in broker_ids(spec)
            for listener in ("SAMEZONE", "INTERNAL")
        } | {
            (broker, f"controller-{voter}"): ports["CONTROLLER"][voter]
            for broker in broker_ids(spec)
            for voter in quorum_ids(spec)
        }
        self._upstream = links
        self._listen = dict(zip(links, free_ports(len(links)), strict=True))
        self._voters = quorum_ids(spec)
        self.names: dict[int, list[str]] = {
            broker: [_link_name(link) for link in links if link[0] == broker] for broker in broker_ids(spec)
        }

    def add_to(self, proxy: ToxiproxyApi) -> None:
        for link, upstream in self._upstream.items():
            proxy.add_plain_proxy(
                _link_name(link), listen=f"{HOST}:{self._listen[link]}", upstream=f"{HOST}:{upstream}"
            )

    def advertised(self, broker: int) -> dict[str, str]:
        return {name: f"{HOST}:{self._listen[broker, name]}" for name in ("SAMEZONE", "INTERNAL")}

    def voters(self, broker: int) -> dict[int, str]:
        return {voter: f"{HOST}:{self._listen[broker, f'controller-{voter}']}" for voter in self._voters}


def _link_name(link: tuple[int, str]) -> str:
    return f"link-{link[0]}-{link[1].lower()}"
