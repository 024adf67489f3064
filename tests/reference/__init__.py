"""An independent NumPy implementation of docs/arithmetic.md: the tests compare the engine with it bit by bit."""
