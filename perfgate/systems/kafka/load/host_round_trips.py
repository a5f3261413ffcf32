"""Round trips from load hosts to the brokers: a process on each host of a link measures that of a connection."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from perfgate.load.processes import Generators
from perfgate.load.transport import Transport
from perfgate.model import Link, Settings
from perfgate.model.load import Observer

ROUND_TRIP = "round-trip"
TIMEOUT_S = 60.0
"""For the start of a process on a slow host, a request with TLS and SASL, and seven connections to each broker."""


def host_rtt_ms(transport: Transport, link: Link, bootstrap: str, security: Settings) -> float:
    """Return the median over the transport's hosts of the round trip that each has to the brokers, in ms.

    Raises LoadError when a host does not tell.
    """
    spec: Mapping[str, object] = {
        "role": ROUND_TRIP,
        "client_path": "",
        "most_s": TIMEOUT_S,
        "bootstrap": bootstrap,
        "client": dict(security),
        "link": link.name,
    }
    nobody = Observer(edge=lambda _at: None, check=lambda: None, progress=lambda _phase, _last: None, written=lambda: 0)
    names = [f"{ROUND_TRIP}-{number}" for number in range(1, transport.size + 1)]
    with Generators(dict.fromkeys(names, spec), transport) as measuring:
        told = measuring.wait_for("result", TIMEOUT_S, nobody, phase=f"measuring the {link.name} link")
    return statistics.median(float(result["rtt_ms"]) for result in told)
