"""A plugin for a gate run (`-p benchmarks.longer_link`): the link to the other zone adds LINK_MS to a round trip.

Wherever its delay is set: a cluster sets it anew after a scenario with another link.
"""

import os

from perfgate.host.toxiproxy import ToxiproxyApi
from perfgate.model import CROSS_ZONE

_add_proxy, _set_added_rtt = ToxiproxyApi.add_proxy, ToxiproxyApi.set_added_rtt


def _longer(added_rtt_ms: int) -> int:
    return int(os.environ["LINK_MS"]) if added_rtt_ms == CROSS_ZONE.added_rtt_ms else added_rtt_ms


def _add_longer(api: ToxiproxyApi, name: str, *, listen: str, upstream: str, added_rtt_ms: int) -> None:
    _add_proxy(api, name, listen=listen, upstream=upstream, added_rtt_ms=_longer(added_rtt_ms))


def _set_longer(api: ToxiproxyApi, name: str, added_rtt_ms: int) -> None:
    _set_added_rtt(api, name, _longer(added_rtt_ms))


ToxiproxyApi.add_proxy = _add_longer  # type: ignore[method-assign, assignment]
ToxiproxyApi.set_added_rtt = _set_longer  # type: ignore[method-assign, assignment]
