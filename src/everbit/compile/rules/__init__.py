"""Lowering rules, one a layer: how a step of the torch graph becomes layers of the program.

docs/arithmetic.md, section 3, says what those layers compute.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch import fx, nn

from everbit.compile.clamps import CLAMP_MODULES
from everbit.compile.lowering import Lowering
from everbit.compile.plain_steps import FlattenTo, MultiplyAdd, Squeeze
from everbit.compile.rules.activations import clamp, prelu, rprelu
from everbit.compile.rules.binary import binary_layer, learned_bias, sign
from everbit.compile.rules.image import floor_quantize
from everbit.compile.rules.joins import add, concat
from everbit.compile.rules.norm import batch_norm, multiply_add
from everbit.compile.rules.pools import average_pool, blur_pool, global_average_pool, global_max_pool, max_pool
from everbit.compile.rules.real import real_layer
from everbit.compile.rules.shapes import flatten, same
from everbit.compile.rules.thresholds import NOTHING
from everbit.compile.rules.windows import PAD_RULES
from everbit.nn.binary import BinaryConv2d, BinaryLinear, LearnedBias, RPReLU, Sign
from everbit.nn.quantize import FloorQuantize
from everbit.nn.windows import BlurPool2d

Rule = Callable[[Lowering, fx.Node], None]

MODULE_RULES: dict[type[nn.Module], Rule] = {
    nn.Conv2d: real_layer,
    nn.Linear: real_layer,
    BinaryConv2d: binary_layer,
    BinaryLinear: binary_layer,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    LearnedBias: learned_bias,
    Sign: sign,
    FloorQuantize: floor_quantize,
    RPReLU: rprelu,
    nn.PReLU: prelu,
    nn.AvgPool2d: average_pool,
    nn.MaxPool2d: max_pool,
    BlurPool2d: blur_pool,
    nn.AdaptiveAvgPool2d: global_average_pool,
    nn.AdaptiveMaxPool2d: global_max_pool,
    **dict.fromkeys((nn.Flatten, FlattenTo, Squeeze), flatten),
    MultiplyAdd: multiply_add,
    **dict.fromkeys(NOTHING, same),
    **PAD_RULES,
    **dict.fromkeys(CLAMP_MODULES, clamp),
}
FUNCTION_RULES: dict[object, Rule] = {operator.add: add, torch.cat: concat}
"""What has no module (compile/canonical.py)."""


def lower(low: Lowering, node: fx.Node) -> None:
    """Applies the rule of a node. Raises CompileError, naming the module, where there is none."""
    module = low.module(node)
    rule = FUNCTION_RULES.get(node.target) if module is None else MODULE_RULES.get(type(module))
    what = getattr(node.target, "__name__", str(node.target)) if module is None else type(module).__name__
    if rule is None:
        supported = sorted(
            {m.__name__ for m in MODULE_RULES if m.__module__ != MultiplyAdd.__module__} | {"add", "cat"}
        )
        raise low.error(node, f"{what} has no lowering rule", f"use {', '.join(supported)}")
    rule(low, node)
