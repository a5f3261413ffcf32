"""What is measured: base scenarios, the catalogue of families, and the two tests."""
