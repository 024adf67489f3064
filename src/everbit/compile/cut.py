"""The cut: where a network may be cut in two, what its latent must know, and the layer it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray
from torch import fx, nn

from everbit.compile.lowering import BATCH_NORMS, Lowering, floats
from everbit.compile.program import Tensor
from everbit.compile.trace import module_path
from everbit.errors import CompileError
from everbit.nn.binary import BinaryWeight, LearnedBias, Sign
from everbit.nn.windows import BlurPool2d, SamePad2d
from everbit.quantize.calibrate import CutPoint, Latent
from everbit.quantize.scale import affine_of, wide_factor
from everbit.zoo.cuts import WHOLE_NETWORK

_IMAGE_RANGE = (-1.0, 1.0)
_KEEP_SIGNS = (nn.Identity, nn.Dropout, nn.Flatten, nn.ZeroPad2d, nn.ConstantPad2d, SamePad2d)
_KEEP_SUMS = (
    nn.AvgPool2d,
    nn.MaxPool2d,
    nn.AdaptiveMaxPool2d,
    BlurPool2d,
    nn.ReLU,
    nn.Identity,
    nn.Dropout,
)


def find_cut(graph: fx.GraphModule, name: str, usual: Sequence[str] = ()) -> fx.Node:
    """The node whose value is the latent: the image for "input", else the output of the module `name`.

    Raises CompileError where there is none, with names like it and the `usual` cuts of the network.
    """
    found: fx.Node | None = None
    names: dict[str, None] = {}
    for node in graph.graph.nodes:
        paths = [str(path) for path in node.meta.get("nn_module_stack", {}) if path]
        if node.op == "call_module":
            paths.append(str(node.target))
        if node.op == "placeholder":
            paths.append(WHOLE_NETWORK)
        names.update(dict.fromkeys(paths))
        if name in paths:
            found = node
    if found is None:
        hints = {"names like it are": get_close_matches(name, names), "its usual cuts are": usual}
        advice = "".join(f"{words} {', '.join(modules)}; " for words, modules in hints.items() if modules)
        raise CompileError(
            f"the network has no module {name!r} to cut after: {advice}`everbit summary` lists layers, "
            "`everbit plan --cut all` places to cut"
        )
    return found


def nodes_behind(node: fx.Node) -> set[fx.Node]:
    """Every node that depends on one."""
    found: set[fx.Node] = set()
    stack: list[fx.Node] = list(node.users)
    while stack:
        user = stack.pop()
        if user not in found:
            found.add(user)
            stack += list(user.users)
    return found


def check_cut(graph: fx.GraphModule, at: fx.Node, features: fx.Node, cut: str) -> None:
    """Raises CompileError, naming where one can cut, unless everything behind the cut follows from its value."""
    nodes: list[fx.Node] = list(graph.graph.nodes)
    learnable = nodes_behind(at)
    if features is not at and features not in learnable:
        raise CompileError(f"the network's features do not depend on {cut}: cut at a module on the way to the head")
    if isinstance(_module(graph, at), LearnedBias):
        raise CompileError(
            f"cannot cut after {cut}: its bias belongs to the Sign behind it; {_advice(graph, at, features)}"
        )
    crossing = _crossing(nodes, at, learnable)
    if crossing is not None:
        reader, read = crossing
        raise CompileError(
            f"cannot cut after {cut}: {module_path(reader)} behind it also reads {_path(read)}; "
            f"{_advice(graph, at, features)}, where one activation carries everything"
        )


def cut_point(graph: fx.GraphModule, at: fx.Node) -> CutPoint:
    """What calibration must know of the cut."""
    if at.op == "placeholder":
        return CutPoint(at, limits=_IMAGE_RANGE)
    unit = _sum_unit(graph, at)
    for user in at.users:
        module = _module(graph, user)
        if isinstance(module, Sign):
            return CutPoint(at, unit=unit, threshold=np.zeros(1))
        if isinstance(module, LearnedBias):
            return CutPoint(at, unit=unit, threshold=-floats(module.bias))
    signs = isinstance(_module(graph, _before(graph, at, _KEEP_SIGNS)), Sign)
    return CutPoint(at, unit=unit, threshold=np.zeros(1) if signs else None, signs=signs)


def lower_latent(low: Lowering, at: fx.Node, latent: Latent) -> None:
    """The layer `latent`: codes for the replay memory, values for the learnable part."""
    if at in low.stands_for and _sum_unit(low.graph, at) is None:
        low.round(at)
    index = low.tensor[at]
    tensor = low.builder.tensors[index]
    attributes = dict.fromkeys(("encode_A", "encode_B", "encode_s", "decode_A", "decode_B", "decode_s"), 0)
    arrays: dict[str, NDArray[np.generic]] = {}
    if tensor.bits == 1:
        if latent.bits != 1:
            raise low.error(
                at, f"gives signs, which a latent of {latent.bits} bits cannot store", "ask for 1-bit latents"
            )
    elif latent.bits == 1:
        arrays = _levels(tensor, latent)
    elif tensor.bits == 32:
        attributes |= _wide_coding(tensor, latent)
    else:
        attributes |= _coding(tensor, latent)
    low.tensor[at] = low.builder.add(
        "latent", _path(at), (index,), tensor, attributes={"bits": latent.bits, **attributes}, arrays=arrays
    )


def _levels(tensor: Tensor, latent: Latent) -> dict[str, NDArray[np.generic]]:
    """Threshold, low and high level of a one-bit latent, by channel."""
    side = 2 ** (tensor.bits - 1)
    real = np.broadcast_to(latent.threshold, tensor.channels)
    # Inside the range, so that both sides of it exist, and each level on its own side: the next sign must see the
    # stored bit.
    threshold = np.clip(np.ceil(tensor.zero_point + real / tensor.scale - 1e-9), 1 - side, side - 1)
    low_level = np.minimum(np.round(tensor.zero_point + latent.low / tensor.scale), threshold - 1)
    high_level = np.maximum(np.round(tensor.zero_point + latent.high / tensor.scale), threshold)
    dtype = np.int32 if tensor.bits == 32 else np.int16
    return {
        "threshold": threshold.astype(np.int32),
        "low": np.maximum(low_level, -side).astype(dtype),
        "high": np.minimum(high_level, side - 1).astype(dtype),
    }


def _coding(tensor: Tensor, latent: Latent) -> dict[str, int]:
    step = latent.step
    a = tensor.scale / step
    least = 2.0**14 if latent.bits == 16 else None  # a code of 16 bits leaves one bit less to A
    encode = affine_of(np.array([a]), np.array([-tensor.zero_point * a - latent.start / step]))
    decode = affine_of(np.array([1 / a]), np.array([tensor.zero_point + latent.start / tensor.scale]), most=least)
    return {
        f"{way}_{name}": int(value[0])
        for way, constants in (("encode", encode), ("decode", decode))
        for name, value in zip("ABs", constants, strict=True)
    }


def _wide_coding(tensor: Tensor, latent: Latent) -> dict[str, int]:
    """B counts in steps of the tensor there, so that it fits an attribute."""
    a = tensor.scale / latent.step
    start = int(np.clip(round(latent.start / tensor.scale), -(2**31), 2**31 - 1))
    (encode_A, encode_s), (decode_A, decode_s) = wide_factor(a, 2**30 - 1), wide_factor(1 / a, 2**31 - 1)
    return {
        "encode_A": encode_A,
        "encode_B": start,
        "encode_s": encode_s,
        "decode_A": decode_A,
        "decode_B": start,
        "decode_s": decode_s,
    }


def _sum_unit(graph: fx.GraphModule, at: fx.Node) -> NDArray[np.float64] | None:
    """The real value of one unit of a binary layer's sums of signs, by channel.

    None unless the cut's value is such sums and batch norms alone read them.
    """
    if not _leads_to_norms(graph, at):
        return None
    at = _before(graph, at, _KEEP_SUMS)
    module = _module(graph, at)
    if not isinstance(module, BinaryWeight) or not isinstance(
        _module(graph, _before(graph, at.all_input_nodes[0], _KEEP_SIGNS)), Sign
    ):
        return None
    unit = floats(module.alpha())
    return np.where(unit > 0, unit, 1.0)


def _leads_to_norms(graph: fx.GraphModule, node: fx.Node) -> bool:
    """Whether only batch norms read a node, at once or through steps that keep the numbers of sums."""
    modules = [(user, _module(graph, user)) for user in node.users]
    return all(
        isinstance(module, BATCH_NORMS) or (isinstance(module, _KEEP_SUMS) and _leads_to_norms(graph, user))
        for user, module in modules
    )


def _before(graph: fx.GraphModule, node: fx.Node, steps: tuple[type[nn.Module], ...]) -> fx.Node:
    """The last node on the way to another, itself included, that is no step of the given kinds."""
    while isinstance(_module(graph, node), steps):
        node = node.all_input_nodes[0]
    return node


def _module(graph: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    return graph.get_submodule(str(node.target)) if node.op == "call_module" else None


def _path(node: fx.Node) -> str:
    return WHOLE_NETWORK if node.op == "placeholder" else module_path(node)


def _crossing(nodes: Sequence[fx.Node], at: fx.Node, learnable: set[fx.Node]) -> tuple[fx.Node, fx.Node] | None:
    """A node behind the cut and the node in front of it that it reads past the cut, if there are any."""
    for node in nodes:
        if node in learnable or node is at or node.op in ("get_attr", "output"):
            continue
        for user in node.users:
            if user in learnable:
                return user, node
    return None


def _advice(graph: fx.GraphModule, at: fx.Node, features: fx.Node) -> str:
    """The nearest cuts in front of and behind a place where there can be none."""
    nodes: list[fx.Node] = list(graph.graph.nodes)
    place, end = nodes.index(at), nodes.index(features)

    def possible(node: fx.Node) -> bool:
        learnable = nodes_behind(node)
        bias = isinstance(_module(graph, node), LearnedBias)
        return features in learnable and not bias and _crossing(nodes, node, learnable) is None

    before = next((f"at {_path(node)} in front of it" for node in reversed(nodes[:place]) if possible(node)), "")
    after = next((f"at {_path(node)} behind it" for node in nodes[place + 1 : end] if possible(node)), "")
    return "cut " + " or ".join(filter(None, (before, after)))
