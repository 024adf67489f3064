"""Learners: the engine's, and a float baseline behind the same protocol."""
