"""The gate itself is the plugin of the installed package: perfgate/fixtures/plugin.py, which pytest.ini asks for."""
