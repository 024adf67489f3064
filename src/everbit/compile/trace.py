"""A torch module as a graph of steps that the lowering rules know."""

from __future__ import annotations

from torch import fx, nn

from everbit.compile.canonical import canonical, module_path
from everbit.errors import CompileError
from everbit.nn.binary import BinaryWeight, LearnedBias, RPReLU, Sign
from everbit.nn.quantize import FloorQuantize
from everbit.nn.windows import BlurPool2d, SamePad2d

__all__ = ["module_path", "trace"]

_LEAVES = (BinaryWeight, LearnedBias, RPReLU, Sign, FloorQuantize, BlurPool2d, SamePad2d)


class _Tracer(fx.Tracer):
    """Keeps everbit's layers whole; torch's own are whole already."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, _LEAVES) or super().is_leaf_module(m, module_qualified_name)


def trace(network: nn.Module) -> fx.GraphModule:
    """The network as a torch.fx graph, in evaluation mode, with one form of each step (canonical.py).

    Raises CompileError where it cannot be traced, or calls something in a way that the compiler does not know.
    """
    network = network.eval()
    try:
        graph = fx.GraphModule(network, _Tracer().trace(network))
    except Exception as error:
        raise CompileError(
            f"{type(network).__name__} cannot be traced ({error}): "
            "its forward may not branch on values or shapes of tensors"
        ) from error
    return canonical(graph)
