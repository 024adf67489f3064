"""torch module -> program: trace, calibrate, cut, lower."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from torch import fx, nn

from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.lowering import Lowering, floats
from everbit.compile.program import Head, Program, Tensor
from everbit.compile.rules import lower
from everbit.compile.trace import find_cut, module_path, trace
from everbit.errors import CompileError, ImageError
from everbit.nn.binary import BinaryConv2d, LearnedBias, Sign
from everbit.quantize.calibrate import Latent, calibrate
from everbit.quantize.scale import Floats, affine_of, range_exponent_of, scale_of
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
    """Compiles a network to a program cut after the module `cut`, such as "stage4.block1".

    images: uint8 [N, H, W, C], the calibration images (the protocols: those of experience 0); the network's input is
    images / 127.5 - 1. The network's own linear head is dropped: a learner grows its own. Raises CompileError where the
    network cannot be traced, cut there, or lowered, ImageError for images of another form.
    """
    widths = widths or Widths()
    if images.ndim != 4 or images.shape[-1] != _input_channels(network) or images.dtype != np.uint8 or len(images) == 0:
        raise ImageError(
            f"calibration images are {images.dtype} {list(images.shape)}: "
            f"pass uint8 [N, height, width, {_input_channels(network)}], N >= 1"
        )
    graph = trace(network)
    nodes = list(graph.graph.nodes)
    at = find_cut(graph, cut)
    learnable = _after(at)
    features = _features(graph, nodes)
    _check_cut(nodes, at, learnable, features, cut)
    threshold = _next_threshold(graph, at)
    calibration = calibrate(graph, at, features, images, widths.latent, threshold, learnable)

    facts = {"cut": cut, "widths": str(widths), "calibration_images": len(images), **(metadata or {})}
    low = Lowering(graph, calibration, widths, learnable, latent_magnitude)
    _input(low, nodes[0], images.shape)
    for node in nodes[1 : nodes.index(features) + 1]:
        lower(low, node)
        if node is at:
            assert calibration.latent is not None
            _latent(low, at, calibration.latent)
    assert calibration.features is not None
    head = _head(low.builder.tensors[low.tensor[features]], calibration.features)
    program = Program(tuple(low.builder.tensors), tuple(low.builder.layers), head, facts)
    try:
        engine.check_program(program_image(program))
    except ValueError as error:
        raise CompileError(f"the engine refuses the program cut at {cut}: {error}") from error
    return program


def _input_channels(network: nn.Module) -> int:
    """Channels of the images a network takes: those of its first convolution."""
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, BinaryConv2d)):
            return module.in_channels
    raise CompileError(f"{type(network).__name__} has no convolution: only convolutional networks are compiled")


def _after(node: fx.Node) -> set[fx.Node]:
    """Every node that depends on one."""
    found: set[fx.Node] = set()
    stack: list[fx.Node] = list(node.users)
    while stack:
        user = stack.pop()
        if user not in found:
            found.add(user)
            stack += list(user.users)
    return found


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


def _check_cut(nodes: list[fx.Node], at: fx.Node, learnable: set[fx.Node], features: fx.Node, cut: str) -> None:
    if features is not at and features not in learnable:
        raise CompileError(f"the network's features do not depend on {cut}: cut at a module on the way to the head")
    for node in nodes:
        if node in learnable or node is at or node.op in ("placeholder", "output"):
            continue
        crossing = next((user for user in node.users if user in learnable), None)
        if crossing is not None:
            raise CompileError(
                f"cannot cut after {cut}: {module_path(crossing)} behind it also reads {module_path(node)}; "
                f"cut where one activation carries everything, such as the end of a block"
            )


def _next_threshold(graph: fx.GraphModule, at: fx.Node) -> Floats | None:
    """The threshold of the sign that reads the latent, by channel: 0, or minus its learned bias; None without one."""
    for user in at.users:
        module = graph.get_submodule(str(user.target)) if user.op == "call_module" else None
        if isinstance(module, Sign):
            return np.zeros(1)
        if isinstance(module, LearnedBias):
            return -floats(module.bias)
    return None


def _input(low: Lowering, node: fx.Node, shape: tuple[int, ...]) -> None:
    """Bytes u to 2 u - 255, which is 255 (u / 127.5 - 1), exactly."""
    _, height, width, channels = shape
    target = Tensor(height, width, channels, 16, 0, 1 / 255)
    low.tensor[node] = low.builder.add(
        "input", node.name, (), target, arrays={"offset": np.full(channels, 255, np.int16)}
    )


def _latent(low: Lowering, at: fx.Node, latent: Latent) -> None:
    """The cut: codes for the replay memory, values for the learnable part."""
    index = low.tensor[at]
    tensor = low.builder.tensors[index]
    if tensor.bits == 1 or at in low.channel_scale:
        raise low.error(at, "is no place for a cut", "cut after a batch norm, an addition or an activation")
    side = 2 ** (tensor.bits - 1)
    attributes = dict.fromkeys(("encode_A", "encode_B", "encode_s", "decode_A", "decode_B", "decode_s"), 0)
    arrays: dict[str, NDArray[np.generic]] = {}
    if latent.bits == 1:
        real = np.broadcast_to(latent.threshold, tensor.channels)
        # Inside the range, so that both sides of it exist, and each level on its own side: the next sign must see the
        # stored bit.
        threshold = np.clip(np.ceil(tensor.zero_point + real / tensor.scale - 1e-9), 1 - side, side - 1)
        low_level = np.minimum(np.round(tensor.zero_point + latent.low / tensor.scale), threshold - 1)
        high_level = np.maximum(np.round(tensor.zero_point + latent.high / tensor.scale), threshold)
        arrays = {
            "threshold": threshold.astype(np.int32),
            "low": np.maximum(low_level, -side).astype(np.int16),
            "high": np.minimum(high_level, side - 1).astype(np.int16),
        }
    else:
        step = (latent.end - latent.start) / (2**latent.bits - 1) or 1.0
        a = tensor.scale / step
        codings: dict[str, tuple[NDArray[np.generic], ...]] = {
            "encode": affine_of(np.array([a]), np.array([-tensor.zero_point * a - latent.start / step])),
            "decode": affine_of(np.array([1 / a]), np.array([tensor.zero_point + latent.start / tensor.scale])),
        }
        for name, constants in codings.items():
            attributes |= {f"{name}_{key}": int(value[0]) for key, value in zip("ABs", constants, strict=True)}
    low.tensor[at] = low.builder.add(
        "latent", module_path(at), (index,), tensor, attributes={"bits": latent.bits, **attributes}, arrays=arrays
    )


def _head(tensor: Tensor, features: Floats) -> Head:
    """Scale of the head's weights, from the features of the calibration images: a zero head has no range of its own."""
    energy = float(np.mean(np.sum(features**2, axis=1))) or 1.0
    largest = float(np.abs(features).max()) or 1.0
    exponent = range_exponent_of(np.array([LOGIT_RANGE * largest / energy]), headroom=1)
    return Head(exponent, scale_of(tensor.scale * 2.0 ** (exponent + 16)), scale_of(tensor.scale))
