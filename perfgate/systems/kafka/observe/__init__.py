"""What became of a cluster while it was loaded: asked of brokers, and read from their metadata log."""
