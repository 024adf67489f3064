"""The selftest on other processors: `make test-cross`."""
