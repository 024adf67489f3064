"""Architectures of binary networks, their pretraining and their weights."""

from everbit.zoo.registry import BUILDERS, build
from everbit.zoo.weights import load_weights, pretrained

__all__ = ["BUILDERS", "build", "load_weights", "pretrained"]
