"""A torch module as a graph of steps that the lowering rules know."""

from __future__ import annotations

from torch import fx, nn

from everbit.errors import CompileError
from everbit.nn.binary import BinaryWeight, LearnedBias, RPReLU, Sign
from everbit.nn.quantize import FloorQuantize
from everbit.nn.windows import BlurPool2d, SamePad2d

_LEAVES = (BinaryWeight, LearnedBias, RPReLU, Sign, FloorQuantize, BlurPool2d, SamePad2d)


class _Tracer(fx.Tracer):
    """Keeps everbit's layers whole; torch's own are whole already."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, _LEAVES) or super().is_leaf_module(m, module_qualified_name)


def trace(network: nn.Module) -> fx.GraphModule:
    """The network as a torch.fx graph, in evaluation mode. Raises CompileError where it cannot be traced."""
    network = network.eval()
    try:
        return fx.GraphModule(network, _Tracer().trace(network))
    except Exception as error:
        raise CompileError(
            f"{type(network).__name__} cannot be traced ({error}): "
            "its forward may not branch on values or shapes of tensors"
        ) from error


def module_path(node: fx.Node) -> str:
    """The path of the innermost module a node belongs to; the node's own name outside of any."""
    if node.op == "call_module":
        return str(node.target)
    stack = list(node.meta.get("nn_module_stack", {}))
    return str(stack[-1]) if stack and stack[-1] else node.name
