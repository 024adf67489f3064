"""Bit widths and the turning of real numbers into the integers of docs/arithmetic.md."""
