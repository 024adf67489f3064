"""PyTorch layers of binary networks and the sign estimators that train them."""

from everbit.nn.binary import BinaryConv2d, LearnedBias, RPReLU, Sign
from everbit.nn.estimators import ESTIMATORS, approx_sign, ste_sign

__all__ = ["ESTIMATORS", "BinaryConv2d", "LearnedBias", "RPReLU", "Sign", "approx_sign", "ste_sign"]
