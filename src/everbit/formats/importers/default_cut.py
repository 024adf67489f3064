"""Where an imported network is cut unless the user says otherwise."""

from __future__ import annotations

from torch import fx, nn

from everbit.compile.cut import check_cut, find_cut
from everbit.compile.trace import module_path, trace
from everbit.errors import CompileError
from everbit.formats.importers.network import ImportedNetwork
from everbit.nn.binary import BinaryConv2d, BinaryWeight, LearnedBias, Sign
from everbit.nn.windows import SamePad2d
from everbit.zoo.cuts import DEFAULT_CUTS, WHOLE_NETWORK

_CONVOLUTIONS = (nn.Conv2d, BinaryConv2d)
_BELONG_BEHIND = (LearnedBias, Sign, SamePad2d, nn.ConstantPad2d)
"""No place for a cut: the layer behind takes it in, or leaves a latent no more than a bit."""


def default_cut(imported: ImportedNetwork) -> str:
    """The zoo's own cut; of another network, the nearest one in front of its last convolution to more channels.

    That is where V24 cuts QuickNet: what stands behind is the last stage. Without such a convolution, the input. A
    network that ends in sums of signs is cut at the last ones: all in front of them is exact in the frozen part alone.
    """
    if imported.architecture is not None:
        return DEFAULT_CUTS[imported.architecture]
    graph = trace(imported.network)
    nodes = list(graph.graph.nodes)
    result = next(node for node in nodes if node.op == "output").args[0]
    assert isinstance(result, fx.Node)
    if isinstance(_module(graph, result), BinaryWeight):
        return next(module_path(node) for node in reversed(nodes) if isinstance(_module(graph, node), Sign))
    widening = [index for index, node in enumerate(nodes) if _widens(graph, node)]
    for node in reversed(nodes[: widening[-1]] if widening else []):
        path = module_path(node)
        module = _module(graph, node)
        if node.op == "placeholder" or isinstance(module, _BELONG_BEHIND):
            continue
        try:
            if find_cut(graph, path) is node:
                check_cut(graph, node, result, path)
                return path
        except CompileError:
            continue
    return WHOLE_NETWORK


def _module(graph: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    return graph.get_submodule(str(node.target)) if node.op == "call_module" else None


def _widens(graph: fx.GraphModule, node: fx.Node) -> bool:
    module = _module(graph, node)
    return isinstance(module, _CONVOLUTIONS) and module.out_channels > module.in_channels
