"""A plugin for a gate run (`-p benchmarks.longer_link`): the link to the other zone adds LINK_MS to a round trip."""

import os
from dataclasses import replace

import perfgate.systems.kafka.managed.embedded_cluster as embedded

embedded.CROSS_ZONE = replace(embedded.CROSS_ZONE, added_rtt_ms=int(os.environ["LINK_MS"]))  # type: ignore[attr-defined]
