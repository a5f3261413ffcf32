"""The catalogue: base scenarios, the families that vary them, and the files that judge them.

relations*.toml has the ratios between scenarios of each system, ratios.toml a run's allowed loss to a reference,
published-*.toml the figures that were published. A thresholds folder of a user's own goes before each of these files.
"""

from pathlib import Path

from perfgate.catalogue import kafka, pulsar

FAMILIES = (*kafka.FAMILIES, *pulsar.FAMILIES)
FOLDER = Path(__file__).parent
