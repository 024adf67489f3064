"""Training of binary networks that keeps bits where PyTorch keeps floating-point numbers (W23; docs/low_memory.md)."""

from everbit.nn.low_memory_training.convert import PROPOSED, STANDARD, Approximations, low_memory

__all__ = ["PROPOSED", "STANDARD", "Approximations", "low_memory"]
