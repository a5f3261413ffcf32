"""The load: libpulsar in generator processes (`libpulsar`: the driver, `clients`), and the official tool."""
