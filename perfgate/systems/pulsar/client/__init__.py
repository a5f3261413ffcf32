"""Requests to Pulsar's brokers over their web service.

What a cluster offers of it: :mod:`perfgate.systems.pulsar.client.topics` and
:mod:`perfgate.systems.pulsar.client.live_settings`.
"""
