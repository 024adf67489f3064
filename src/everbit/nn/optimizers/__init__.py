"""Optimizers for networks in low memory: they remember in 16 bits, and take gradients of one bit as they are."""

from everbit.nn.optimizers.adam import Adam
from everbit.nn.optimizers.bop import Bop
from everbit.nn.optimizers.sgd import SGD

__all__ = ["SGD", "Adam", "Bop"]
