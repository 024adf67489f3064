"""Steps that change no value: identity, dropout, flatten."""

from __future__ import annotations

from dataclasses import replace

from torch import fx, nn

from everbit.compile.lowering import ByChannel, Lowering
from everbit.compile.plain_steps import FlattenTo, Squeeze
from everbit.compile.rules.thresholds import NOTHING
from everbit.compile.trace import module_path

SOFTMAX = (nn.Softmax, nn.LogSoftmax)
"""What a network may end in: the head brings its own."""


def same(low: Lowering, node: fx.Node) -> None:
    """Steps that change nothing when a network runs."""
    source = low.source(node)
    low.tensor[node] = low.tensor[source]
    if source in low.stands_for:
        low.stands_for[node] = low.stands_for[source]
    if source in low.pending_bias:
        low.pending_bias[node] = low.pending_bias[source]


def flatten(low: Lowering, node: fx.Node) -> None:
    """A map to a row of channels; nothing right in front of the head, which reads maps."""
    before, module = low.source(node), low.module(node)
    if isinstance(module, (FlattenTo, Squeeze)) and not module.fits(*low.shape(before)):
        height, width, channels = low.shape(before)
        raise low.error(
            node, f"makes other rows of a map of {height}x{width}x{channels}", "use nn.Flatten() or x.flatten(1)"
        )
    if _leads_to_the_head(low, node) and not low.is_cut(node):
        same(low, node)
        return
    if before in low.stands_for:
        index, by = low.tensor[before], low.stands_for[before]
        places = low.builder.tensors[index].height * low.builder.tensors[index].width
        low.stands_for[node] = ByChannel(by.factor.repeat(places), by.offset.repeat(places))
    else:
        index = low.read(node, signs=True)[0]
    source = low.builder.tensors[index]
    channels = source.height * source.width * source.channels
    if low.shape(node) != (1, 1, channels):
        raise low.error(node, "flattens only some of the axes", "use nn.Flatten() or torch.flatten(x, 1)")
    target = replace(source, height=1, width=1, channels=channels)
    low.tensor[node] = low.builder.add("flatten", module_path(node), (index,), target)


def _leads_to_the_head(low: Lowering, node: fx.Node) -> bool:
    """Whether only the network's own head, or its output, reads a node."""
    for user in node.users:
        module = low.module(user)
        if isinstance(module, (*NOTHING, nn.Flatten, *SOFTMAX)):
            if not _leads_to_the_head(low, user):
                return False
        elif user.op != "output" and not (
            isinstance(module, nn.Linear) and all(reader.op == "output" for reader in user.users)
        ):
            return False
    return True
