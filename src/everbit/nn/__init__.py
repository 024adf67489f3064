"""PyTorch layers of binary networks and the sign estimators that train them."""

from everbit.nn.binary import BinaryConv2d, BinaryLinear, LearnedBias, RPReLU, Sign
from everbit.nn.estimators import ESTIMATORS, approx_sign, ste_sign
from everbit.nn.quantize import FloorQuantize
from everbit.nn.windows import BlurPool2d, SamePad2d

__all__ = [
    "ESTIMATORS",
    "BinaryConv2d",
    "BinaryLinear",
    "BlurPool2d",
    "FloorQuantize",
    "LearnedBias",
    "RPReLU",
    "SamePad2d",
    "Sign",
    "approx_sign",
    "ste_sign",
]
