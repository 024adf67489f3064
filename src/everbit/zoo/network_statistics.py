"""Statistics of a torch network, from one pass of an image without values through its graph."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, fx, nn

from everbit.compile.cut import find_cut, nodes_behind
from everbit.compile.trace import module_path, trace
from everbit.nn.binary import BinaryWeight, Sign
from everbit.nn.windows import BlurPool2d, SamePad2d
from everbit.zoo.statistics import LayerStatistics, Shape
from everbit.zoo.weights import BATCH_NORMS

REAL_BITS = 32
BLUR_TAPS = 9

_KEEPS_BITS = (SamePad2d, nn.Flatten, nn.MaxPool2d, nn.AdaptiveMaxPool2d, nn.Identity, nn.Dropout)


def _shape(value: Tensor) -> Shape:
    """Height, width and channels of a value [N, C, H, W] or [N, C]."""
    channels, height, width = (*value.shape[1:], 1, 1)[:3]
    return height, width, channels


def _weighted(module: nn.Module, places: int, input_bits: int) -> dict[str, int | dict[int, int]]:
    """Fields of a convolution or a dense layer that is read at so many places."""
    weight, bias = module.get_parameter("weight"), getattr(module, "bias", None)
    bits = 1 if isinstance(module, BinaryWeight) else REAL_BITS
    parameters = {bits: weight.numel()} | ({} if bias is None else {REAL_BITS: weight.numel() + bias.numel()})
    kind = "binary_macs" if bits == input_bits == 1 else "other_macs"
    return {"parameters": parameters, "trainable": sum(parameters.values()), kind: places * weight.numel()}


def _batch_norm(module: nn.Module) -> dict[str, int | dict[int, int]]:
    assert isinstance(module, BATCH_NORMS)
    values = 2 * module.num_features
    learned = values if module.affine else 0
    return {"parameters": {REAL_BITS: values}, "trainable": learned, "folded": learned}


def _fields(module: nn.Module, shape: Shape, input_bits: int) -> dict[str, int | dict[int, int]]:
    """What a layer adds to its name, kind, input and output."""
    height, width, channels = shape
    if isinstance(module, (BinaryWeight, nn.Conv2d, nn.Linear)):
        return _weighted(module, height * width, input_bits)
    if isinstance(module, BATCH_NORMS):
        return _batch_norm(module)
    if isinstance(module, BlurPool2d):
        taps = BLUR_TAPS * channels
        return {"parameters": {REAL_BITS: taps}, "constants": taps, "other_macs": height * width * taps}
    count = sum(parameter.numel() for parameter in module.parameters())
    return {"parameters": {REAL_BITS: count}, "trainable": count} if count else {}


class NetworkStatistics(fx.Interpreter):
    """Statistics of a network on images of `input_shape` (height, width, channels).

    layers: in the order of running. Raises CompileError where the network cannot be traced.
    """

    def __init__(self, network: nn.Module, input_shape: Shape) -> None:
        height, width, channels = input_shape
        graph = trace(copy.deepcopy(network).to("meta"))
        super().__init__(graph, garbage_collect_values=False)
        self._graph = graph
        self._shapes: dict[str, Shape] = {}
        self._layers: dict[fx.Node, LayerStatistics] = {}
        self._bits: dict[fx.Node, int] = {}
        with torch.no_grad():
            self.run(torch.empty(1, channels, height, width, device="meta"))

    def run_node(self, n: fx.Node) -> object:
        value = super().run_node(n)
        if n.op not in ("call_module", "call_function", "call_method") or not isinstance(value, Tensor):
            return value
        shape, source = _shape(value), n.all_input_nodes[0]
        module = self._graph.get_submodule(str(n.target)) if n.op == "call_module" else None
        bits = self._bits.get(source, REAL_BITS)
        keeps = isinstance(module, _KEEPS_BITS)
        self._bits[n] = 1 if isinstance(module, Sign) else bits if keeps else REAL_BITS
        for path in (*n.meta.get("nn_module_stack", {}), module_path(n)):
            self._shapes[str(path)] = shape
        kind = type(module).__name__ if module is not None else getattr(n.target, "__name__", str(n.target))
        fields = {} if module is None else _fields(module, shape, bits)
        self._layers[n] = LayerStatistics(module_path(n), kind, bits, shape, **fields)  # type: ignore[arg-type]
        return value

    @property
    def layers(self) -> list[LayerStatistics]:
        """All layers, in the order of running."""
        return list(self._layers.values())

    def shape(self, path: str) -> Shape:
        """The output's shape of the module at that path, a layer or a block of layers."""
        return self._shapes[path]

    def behind(self, cut: str) -> list[LayerStatistics]:
        """The layers that depend on the output of the module `cut`. Raises CompileError where there is none."""
        nodes = nodes_behind(find_cut(self._graph, cut))
        return [layer for node, layer in self._layers.items() if node in nodes]
