"""The drivers: librdkafka in generator processes, and the official tools."""
