"""State dicts with published names, as the zoo's networks."""

from __future__ import annotations

import torch
from torch import nn

from everbit.errors import FormatError, UnsupportedError
from everbit.formats.importers.network import ImportedNetwork
from everbit.formats.importers.normalization import normalize_input
from everbit.formats.importers.state_layouts import LAYOUTS, StateLayout
from everbit.formats.importers.stored_tensors import StoredTensors, fill
from everbit.nn.binary import BinaryWeight
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.registry import build

_COUNTERS = ("num_batches_tracked", "total_ops", "total_params")
"""What state dicts hold beside the numbers of a network: counters of training steps and of profilers."""

MOST_CLASSES, MOST_FILTERS = 100_000, 1024
"""Of a published network: larger numbers come from damaged files."""


def load_state_dict(tensors: StoredTensors) -> ImportedNetwork:
    """The network whose tensors have published names; binary weights keep their latent values, mean|w| their scale.

    Raises UnsupportedError where the names are of none that is known, FormatError where tensors are missing, left over
    or of a wrong shape.
    """
    layout = _layout(tensors)
    names = layout.names(tensors)
    network, width, classes, stem = _network(layout, names, tensors)
    binary = {f"{path}.weight" for path, module in network.named_modules() if isinstance(module, BinaryWeight)}
    for name, tensor in network.state_dict(keep_vars=True).items():
        if name.endswith(_COUNTERS):
            continue
        stored, shape = _stored_name(names, name), tuple(tensor.shape)
        shapes = [shape]
        if name in binary:
            # Both repositories keep binary weights as one column, in later versions as they are used.
            shapes.append((tensor.numel(), 1))
            stored = f"{stored}s" if stored not in tensors else stored
        elif len(shape) == 1:
            shapes.append((1, shape[0], 1, 1))
        fill(tensor, tensors.take(stored, *shapes))
    tensors.skip(*_COUNTERS)
    tensors.finish()
    normalize_input(network, layout.normalization)
    image = NETWORKS[layout.architecture].stems[stem]
    return ImportedNetwork(network.eval(), image, classes, layout.source, layout.architecture, width, stem)


def _layout(tensors: StoredTensors) -> StateLayout:
    found = [
        layout
        for layout in LAYOUTS
        if all(any(name.startswith(marker) for name in tensors) for marker in layout.markers)
    ]
    if not found:
        known = ", ".join(f"{layout.architecture} of {layout.source}" for layout in LAYOUTS)
        first = ", ".join(list(tensors)[:3])
        raise UnsupportedError(f"{tensors.path} holds a network that is not known, with {first}: known are {known}")
    return found[-1]


def _network(layout: StateLayout, names: dict[str, str], tensors: StoredTensors) -> tuple[nn.Module, float, int, str]:
    """An empty network of the width that fits the file best, its width, its classes and its stem."""
    first, head = tensors.shape(layout.stem_weight), tensors.shape(layout.head_weight)
    if len(first) != 4 or len(head) != 2 or not (0 < head[0] <= MOST_CLASSES and 0 < first[0] <= MOST_FILTERS):
        raise FormatError(f"{tensors.path}: its first weights are {list(first)}, its last {list(head)}: it is damaged")
    if "layer1.4.bn1.weight" in tensors:
        raise UnsupportedError(
            f"{tensors.path} has more than four blocks a stage: only the 18-layer networks are known"
        )
    has_large_stem = layout.architecture not in ("birealnet18", "reactnet18") or first[2] == 7
    stem = "imagenet" if has_large_stem else "cifar"

    def misfits(width: float) -> int:
        with torch.device("meta"):
            candidate = build(layout.architecture, width, head[0], stem)
        stored = {_stored_name(names, name): tuple(tensor.shape) for name, tensor in candidate.state_dict().items()}
        return sum(name in tensors and tensors.shape(name) != shape for name, shape in stored.items())

    width = min(layout.widths(first[0]), key=misfits)
    return build(layout.architecture, width, head[0], stem), width, head[0], stem


def _stored_name(names: dict[str, str], name: str) -> str:
    """The file's name of a tensor of ours: its own entry, or its module's."""
    if name in names:
        return names[name]
    module, _, tensor = name.rpartition(".")
    return f"{names[module]}.{tensor}" if module in names else name
