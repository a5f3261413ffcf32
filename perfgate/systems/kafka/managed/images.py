"""Default images of the containers target; apart from it, so that the command line needs no Docker client."""

from __future__ import annotations

from perfgate.systems.kafka.managed.toxiproxy import VERSION

TOXIPROXY_IMAGE = f"ghcr.io/shopify/toxiproxy:{VERSION}"
PROMETHEUS_IMAGE = "prom/prometheus:v3.7.3"
