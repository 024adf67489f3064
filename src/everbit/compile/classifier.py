"""The network's own last layer, and what becomes of it: the head of the program."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import fx, nn

from everbit.compile.lowering import Lowering, floats
from everbit.compile.program import Classifier, Head, Tensor
from everbit.compile.rules.shapes import SOFTMAX
from everbit.compile.trace import module_path
from everbit.errors import CompileError, ConfigurationError
from everbit.quantize.scale import Floats, parameter_values, range_exponent_of, scale_of

LOGIT_RANGE = 16.0
"""The head's weights can reach logits of this size along the mean feature, with as much again in reserve."""

LOGIT_FRACTION = 16
"""Bits behind the point of a logit."""

PATTERNS_OF_A_ROW = 1000
"""What a row of a trained network counts as: its class had about so many pictures. CWR* moves such a row slowly."""


@dataclass(frozen=True)
class NetworkHead:
    """Where a network's features are, and its rows on them: the last linear layer, or none for outputs as they are."""

    features: fx.Node
    linear: nn.Linear | None


def network_head(graph: fx.GraphModule) -> NetworkHead:
    """The head of a traced network. Raises CompileError where it returns more than one value."""
    nodes = list(graph.graph.nodes)
    last = next(node for node in nodes if node.op == "output").args[0]
    if not isinstance(last, fx.Node):
        raise CompileError("the network returns more than one value: return the logits or the features alone")
    module = _module(graph, last)
    while isinstance(module, SOFTMAX):
        last = last.all_input_nodes[0]
        module = _module(graph, last)
    return NetworkHead(last.all_input_nodes[0], module) if isinstance(module, nn.Linear) else NetworkHead(last, None)


def _module(graph: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    return graph.get_submodule(str(node.target)) if node.op == "call_module" else None


def lower_head(
    low: Lowering, head: NetworkHead, features: Floats, keep: bool, labels: Sequence[Hashable] | None
) -> Head:
    """The program's head. features: of the calibration images, [N, F].

    The range of its weights covers what a learner may grow, and the rows that are kept. keep: the network's own classes
    stay, named by `labels`, 0..n-1 without them.
    """
    tensor = _feature_tensor(low, head.features, keep)
    exponent = _growing_range(features)
    if not keep:
        return _head_of(exponent, tensor)
    weights, bias = _rows(low, head, tensor, None if labels is None else len(labels))
    names = tuple(range(len(weights))) if labels is None else tuple(labels)
    if len(names) != len(weights) or len(set(names)) != len(names):
        raise ConfigurationError(
            f"{len(names)} labels for the {len(weights)} classes of the network: give one for each, all different"
        )
    exponent = max(exponent, range_exponent_of(weights))
    limit = 2**31 - 1
    classifier = Classifier(
        names,
        parameter_values(weights, exponent),
        np.clip(np.round(bias * 2.0**LOGIT_FRACTION), -limit, limit).astype(np.int32),
        np.full(len(names), PATTERNS_OF_A_ROW, np.int32),
    )
    return replace(_head_of(exponent, tensor), classifier=classifier)


def _head_of(exponent: int, tensor: Tensor) -> Head:
    return Head(exponent, scale_of(tensor.scale * 2.0 ** (exponent + LOGIT_FRACTION)), scale_of(tensor.scale))


def _growing_range(features: Floats) -> int:
    """Range of the head's weights from the features: a zero head has none of its own."""
    energy = float(np.mean(np.sum(features**2, axis=1))) or 1.0
    largest = float(np.abs(features).max()) or 1.0
    return range_exponent_of(np.array([LOGIT_RANGE * largest / energy]), headroom=1)


def _feature_tensor(low: Lowering, node: fx.Node, keep: bool) -> Tensor:
    """The last tensor, with its scale: that of a unit where it holds the sums of a layer with binary weights."""
    index = low.tensor[node]
    tensor = low.builder.tensors[index]
    if node in low.stands_for:
        unit = low.stands_for[node].factor
        if keep and not np.all(unit == unit[0]):
            raise low.error(
                node,
                "ends in binary sums whose channels have scales of their own",
                "put a batch norm behind it, or build it with scale=False",
            )
        tensor = low.builder.tensors[index] = replace(tensor, scale=float(unit.mean()))
    return tensor


def _rows(low: Lowering, head: NetworkHead, tensor: Tensor, classes: int | None) -> tuple[Floats, Floats]:
    """Weights [n, F] in the order of the program's features, and biases [n]."""
    places, features = tensor.height * tensor.width, tensor.height * tensor.width * tensor.channels
    if head.linear is None:
        weights = np.eye(features)[: classes or features]
        bias = np.zeros(len(weights))
    else:
        weights = floats(head.linear.weight)
        bias = np.zeros(len(weights)) if head.linear.bias is None else floats(head.linear.bias)
    if weights.shape[1] != features or len(low.calibration.shapes[head.features]) != 1:
        raise CompileError(
            f"{module_path(head.features)}: is no row of values for the network's own classes; flatten it"
        )
    # A flatten in front of the head is no layer: the features still lie as a map, channels last.
    ordered: Floats = weights.reshape(-1, tensor.channels, places).transpose(0, 2, 1).reshape(len(weights), features)
    return ordered, bias
