"""Golden vectors of the engine's selftest: inputs from SplitMix64, outputs from the NumPy reference."""
