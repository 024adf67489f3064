"""The table of rules, one a step of the traced network: which ONNX operators compute it."""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch import fx, nn

from everbit.compile.clamps import CLAMP_MODULES
from everbit.compile.plain_steps import FlattenTo, MultiplyAdd, Squeeze
from everbit.compile.rules.thresholds import NOTHING
from everbit.formats.exporters.onnx import layers, steps, windows
from everbit.formats.exporters.onnx.builder import GraphBuilder
from everbit.nn.binary import BinaryConv2d, BinaryLinear, LearnedBias, RPReLU, Sign
from everbit.nn.quantize import FloorQuantize
from everbit.nn.windows import BlurPool2d, SamePad2d

Rule = Callable[[GraphBuilder, fx.Node], None]

MODULE_RULES: dict[type[nn.Module], Rule] = {
    nn.Conv2d: layers.convolution,
    nn.Linear: layers.dense,
    BinaryConv2d: layers.binary_convolution,
    BinaryLinear: layers.binary_dense,
    nn.BatchNorm1d: layers.batch_norm,
    nn.BatchNorm2d: layers.batch_norm,
    LearnedBias: layers.learned_bias,
    RPReLU: layers.rprelu,
    Sign: steps.sign,
    FloorQuantize: steps.floor_quantize,
    nn.AvgPool2d: windows.average_pool,
    nn.MaxPool2d: windows.max_pool,
    BlurPool2d: windows.blur_pool,
    nn.AdaptiveAvgPool2d: windows.global_average_pool,
    nn.AdaptiveMaxPool2d: windows.global_max_pool,
    SamePad2d: windows.same_pad,
    nn.ZeroPad2d: windows.constant_pad,
    nn.ConstantPad2d: windows.constant_pad,
    **dict.fromkeys((nn.Flatten, FlattenTo, Squeeze), steps.reshape),
    MultiplyAdd: layers.multiply_add,
    **dict.fromkeys(NOTHING, steps.same),
    **dict.fromkeys(CLAMP_MODULES, steps.clamp),
}
FUNCTION_RULES: dict[object, Rule] = {
    operator.add: steps.add,
    operator.iadd: steps.add,
    torch.add: steps.add,
    torch.cat: steps.concat,
    torch.flatten: steps.reshape,
    torch.reshape: steps.reshape,
    torch.mean: steps.mean,
}
METHOD_RULES: dict[str, Rule] = {
    **dict.fromkeys(("flatten", "view", "reshape"), steps.reshape),
    "mean": steps.mean,
}


def translate(build: GraphBuilder, node: fx.Node) -> None:
    """Applies the rule of a node. Raises UnsupportedError, naming the module, where there is none."""
    rule: Rule | None = None
    module = build.module(node)
    if module is not None:
        rule, what = MODULE_RULES.get(type(module)), type(module).__name__
    else:
        if node.op == "call_function":
            rule = FUNCTION_RULES.get(node.target)
        elif node.op == "call_method":
            rule = METHOD_RULES.get(str(node.target))
        what = f"{node.op} {getattr(node.target, '__name__', node.target)}"
    if rule is None:
        raise build.error(node, f"{what} has no rule for ONNX")
    rule(build, node)
