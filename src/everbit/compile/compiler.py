"""torch module -> program: trace, calibrate, cut, lower."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from torch import fx, nn

from everbit import engine
from everbit.compile.cut import check_cut, cut_point, find_cut, lower_latent, nodes_behind
from everbit.compile.image import program_image
from everbit.compile.lowering import Lowering
from everbit.compile.program import Head, Program, Tensor
from everbit.compile.rules import lower
from everbit.compile.trace import trace
from everbit.errors import CompileError, ImageError
from everbit.nn.binary import BinaryConv2d
from everbit.quantize.calibrate import calibrate
from everbit.quantize.scale import Floats, range_exponent_of, scale_of
from everbit.quantize.widths import Widths

LATENT_MAGNITUDE = 0.125
"""Size every latent binary weight starts from: a backbone keeps signs only, and the learning rates suit this."""

LOGIT_RANGE = 16.0
"""The head's weights can reach logits of this size along the mean feature, with as much again in reserve."""


def compile_program(
    network: nn.Module,
    images: NDArray[np.uint8],
    *,
    cut: str,
    widths: Widths | None = None,
    latent_magnitude: float = LATENT_MAGNITUDE,
    metadata: dict[str, object] | None = None,
) -> Program:
    """Compiles a network to a program cut after the module `cut`, such as "stage4.block1", or at its "input".

    images: uint8 [N, H, W, C], the calibration images (the protocols: those of experience 0); the network's input is
    images / 127.5 - 1. The network's own linear head is dropped: a learner grows its own. Raises CompileError where the
    network cannot be traced, cut there, or lowered, ImageError for images of another form.
    """
    widths = widths or Widths()
    channels = _input_channels(network)
    if images.ndim != 4 or images.shape[-1] not in channels or images.dtype != np.uint8 or len(images) == 0:
        raise ImageError(
            f"calibration images are {images.dtype} {list(images.shape)}: "
            f"pass uint8 [N, height, width, {' or '.join(map(str, channels))}], N >= 1"
        )
    graph = trace(network)
    nodes = list(graph.graph.nodes)
    at = find_cut(graph, cut)
    learnable = nodes_behind(at)
    features = _features(graph, nodes)
    check_cut(graph, at, features, cut)
    calibration = calibrate(graph, cut_point(graph, at), features, images, widths.latent, learnable)

    facts = {"cut": cut, "widths": str(widths), "calibration_images": len(images), **(metadata or {})}
    low = Lowering(graph, calibration, widths, learnable, latent_magnitude)
    for node in nodes[: nodes.index(features) + 1]:
        if node.op == "placeholder":
            _input(low, node, images.shape)
        else:
            lower(low, node)
        if node is at:
            assert calibration.latent is not None
            lower_latent(low, at, calibration.latent)
    assert calibration.features is not None
    head = _head(low.builder.tensors[low.tensor[features]], calibration.features)
    program = Program(tuple(low.builder.tensors), tuple(low.builder.layers), head, facts)
    try:
        engine.check_program(program_image(program))
    except ValueError as error:
        raise CompileError(f"the engine refuses the program cut at {cut}: {error}") from error
    return program


def _input_channels(network: nn.Module) -> tuple[int, ...]:
    """Channels of the images a network takes: those of its first convolution, gray or color without one."""
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, BinaryConv2d)):
            return (module.in_channels,)
    return (1, 3)


def _features(graph: fx.GraphModule, nodes: Iterable[fx.Node]) -> fx.Node:
    """The node the network's own head reads."""
    output = next(node for node in nodes if node.op == "output")
    last = output.args[0]
    if (
        isinstance(last, fx.Node)
        and last.op == "call_module"
        and isinstance(graph.get_submodule(str(last.target)), nn.Linear)
    ):
        last = last.args[0]
    if not isinstance(last, fx.Node):
        raise CompileError("the network returns more than one value: return the logits or the features alone")
    return last


def _input(low: Lowering, node: fx.Node, shape: tuple[int, ...]) -> None:
    """Bytes u to 2 u - 255, which is 255 (u / 127.5 - 1), exactly."""
    _, height, width, channels = shape
    target = Tensor(height, width, channels, 16, 0, 1 / 255)
    low.tensor[node] = low.builder.add(
        "input", node.name, (), target, arrays={"offset": np.full(channels, 255, np.int16)}
    )


def _head(tensor: Tensor, features: Floats) -> Head:
    """Scale of the head's weights, from the features of the calibration images: a zero head has no range of its own."""
    energy = float(np.mean(np.sum(features**2, axis=1))) or 1.0
    largest = float(np.abs(features).max()) or 1.0
    exponent = range_exponent_of(np.array([LOGIT_RANGE * largest / energy]), headroom=1)
    return Head(exponent, scale_of(tensor.scale * 2.0 ** (exponent + 16)), scale_of(tensor.scale))
