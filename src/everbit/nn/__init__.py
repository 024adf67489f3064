"""PyTorch layers of binary networks and the sign estimators that train them."""

from everbit.nn.binary import BinaryConv2d, BinaryLinear, LearnedBias, RPReLU, Sign
from everbit.nn.estimators import ESTIMATORS, approx_sign, ste_sign
from everbit.nn.low_memory_training import PROPOSED, STANDARD, Approximations, low_memory
from everbit.nn.quantize import FloorQuantize
from everbit.nn.windows import BlurPool2d, SamePad2d

__all__ = [
    "ESTIMATORS",
    "PROPOSED",
    "STANDARD",
    "Approximations",
    "BinaryConv2d",
    "BinaryLinear",
    "BlurPool2d",
    "FloorQuantize",
    "LearnedBias",
    "RPReLU",
    "SamePad2d",
    "Sign",
    "approx_sign",
    "low_memory",
    "ste_sign",
]
