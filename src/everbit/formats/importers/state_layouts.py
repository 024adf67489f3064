"""Published names of state dicts, and where each tensor belongs in the zoo's networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from everbit.formats.importers.normalization import IMAGENET, LITE, Normalization
from everbit.formats.importers.stored_tensors import StoredTensors
from everbit.zoo import efficientnet_lite, mobilenet_v1, mobilenet_v2, reactnet_a
from everbit.zoo.birealnet import BLOCKS, FILTERS

Names = dict[str, str]
"""Path of a module or tensor of the zoo's network -> its path in the file."""

EIGHTHS = (1.0, 0.75, 0.5, 0.35, 0.25, 0.125, 1.3, 1.4)
"""Published widths of networks whose channels come in eights."""


@dataclass(frozen=True)
class StateLayout:
    """One published way to name a network's tensors.

    source: where it is from, for people. markers: names that only such files hold. widths: those the network may have,
    given the channels of its first convolution. names: given the file, its names. stem_weight: of the first
    convolution. head_weight: of the classifier. normalization: of the images it was trained on.
    """

    source: str
    architecture: str
    markers: tuple[str, ...]
    widths: Callable[[int], tuple[float, ...]]
    names: Callable[[StoredTensors], Names]
    stem_weight: str
    head_weight: str
    normalization: Normalization


def _residual(tensors: StoredTensors) -> Names:
    """Bi-Real-net's names: `layer1.0.binary_conv`."""
    names = {"stem.conv": "conv1", "stem.bn": "bn1", "head": "fc"}
    for stage in range(1, len(FILTERS) + 1):
        for block in range(1, BLOCKS + 1):
            ours, theirs = f"stage{stage}.block{block}", f"layer{stage}.{block - 1}"
            names[f"{ours}.conv.weight"] = f"{theirs}.binary_conv.weight"
            names[f"{ours}.bn"] = f"{theirs}.bn1"
            names[f"{ours}.downsample.conv"] = f"{theirs}.downsample.1"
            names[f"{ours}.downsample.bn"] = f"{theirs}.downsample.2"
            names[f"{ours}.bias"] = f"{theirs}.move0"
            names[f"{ours}.activation.bias_in"] = f"{theirs}.move1.bias"
            names[f"{ours}.activation.slope"] = f"{theirs}.prelu.weight"
            names[f"{ours}.activation.bias_out"] = f"{theirs}.move2.bias"
    return names


def _reactnet_a(tensors: StoredTensors) -> Names:
    """ReActNet's names: `feature.1.binary_3x3`."""
    names = {"stem.conv": "feature.0.conv1", "stem.bn": "feature.0.bn1", "head": "fc"}
    for index in range(1, len(reactnet_a.FILTERS) + 1):
        ours, theirs = f"block{index}", f"feature.{index}"
        doubles = f"{theirs}.bn2_1.weight" in tensors
        copies = {1: "binary_pw_down1", 2: "binary_pw_down2"} if doubles else {1: "binary_pw"}
        for step, number, convolution in (("spatial", 1, "binary_3x3"), ("pointwise", 2, None)):
            names[f"{ours}.{step}.bias"] = f"{theirs}.move{number}1"
            names[f"{ours}.{step}.activation.bias_in"] = f"{theirs}.move{number}2.bias"
            names[f"{ours}.{step}.activation.slope"] = f"{theirs}.prelu{number}.weight"
            names[f"{ours}.{step}.activation.bias_out"] = f"{theirs}.move{number}3.bias"
            if convolution is not None:
                names[f"{ours}.{step}.conv.weight"] = f"{theirs}.{convolution}.weight"
                names[f"{ours}.{step}.bn"] = f"{theirs}.bn1"
        for copy, convolution in copies.items():
            names[f"{ours}.pointwise.conv{copy}.weight"] = f"{theirs}.{convolution}.weight"
            names[f"{ours}.pointwise.bn{copy}"] = f"{theirs}.bn2_{copy}" if doubles else f"{theirs}.bn2"
    return names


def _torchvision_mobilenet_v2(tensors: StoredTensors) -> Names:
    """torchvision's names: `features.2.conv.0.0`."""
    blocks = sum(count for _, _, count, _ in mobilenet_v2.STAGES)
    names = {"head": "classifier.1"}
    ends = {"stem": "features.0", "last": f"features.{blocks + 1}"}
    for ours, theirs in ends.items():
        names[f"{ours}.conv"], names[f"{ours}.bn"] = f"{theirs}.0", f"{theirs}.1"
    for index in range(1, blocks + 1):
        theirs = f"features.{index}.conv"
        expands = f"{theirs}.3.weight" in tensors
        steps = ("expand", "depthwise") if expands else ("depthwise",)
        for position, step in enumerate(steps):
            names[f"block{index}.{step}.conv"] = f"{theirs}.{position}.0"
            names[f"block{index}.{step}.bn"] = f"{theirs}.{position}.1"
        names[f"block{index}.project.conv"] = f"{theirs}.{len(steps)}"
        names[f"block{index}.project.bn"] = f"{theirs}.{len(steps) + 1}"
    return names


def _chained_mobilenet_v1(tensors: StoredTensors) -> Names:
    """Names of one `nn.Sequential` called `model`: `model.1.3`."""
    names = {"stem.conv": "model.0.0", "stem.bn": "model.0.1", "head": "fc"}
    for index in range(1, len(mobilenet_v1.BLOCKS) + 1):
        for first, step in ((0, "depthwise"), (3, "pointwise")):
            names[f"block{index}.{step}.conv"] = f"model.{index}.{first}"
            names[f"block{index}.{step}.bn"] = f"model.{index}.{first + 1}"
    return names


def _staged_mobilenet_v1(tensors: StoredTensors) -> Names:
    """pytorchcv's names: `features.stage1.unit1.dw_conv.conv`."""
    names = {"stem.conv": "features.init_block.conv", "stem.bn": "features.init_block.bn", "head": "output"}
    stage, unit = 1, 0
    for index, (_, stride) in enumerate(mobilenet_v1.BLOCKS, start=1):
        stage, unit = (stage + 1, 1) if stride == 2 else (stage, unit + 1)
        for step, short in (("depthwise", "dw_conv"), ("pointwise", "pw_conv")):
            for part in ("conv", "bn"):
                names[f"block{index}.{step}.{part}"] = f"features.stage{stage}.unit{unit}.{short}.{part}"
    return names


def _efficientnet_lite(tensors: StoredTensors) -> Names:
    """efficientnet-lite-pytorch's names: `_blocks.1._expand_conv`."""
    names = {"stem.conv": "_conv_stem", "stem.bn": "_bn0", "last.conv": "_conv_head", "last.bn": "_bn1", "head": "_fc"}
    blocks = sum(count for _, _, _, count, _ in efficientnet_lite.STAGES)
    for index in range(1, blocks + 1):
        for number, step in enumerate(("expand", "depthwise", "project")):
            names[f"block{index}.{step}.conv"] = f"_blocks.{index - 1}._{step}_conv"
            names[f"block{index}.{step}.bn"] = f"_blocks.{index - 1}._bn{number}"
    return names


LAYOUTS = (
    StateLayout(
        "Bi-Real-net",
        "birealnet18",
        ("conv1.weight", "layer1.0.binary_conv"),
        lambda channels: (channels / FILTERS[0],),
        _residual,
        "conv1.weight",
        "fc.weight",
        IMAGENET,
    ),
    StateLayout(
        "ReActNet (ResNet)",
        "reactnet18",
        ("conv1.weight", "layer1.0.binary_conv", "layer1.0.move0.bias"),
        lambda channels: (channels / FILTERS[0],),
        _residual,
        "conv1.weight",
        "fc.weight",
        IMAGENET,
    ),
    StateLayout(
        "ReActNet (MobileNet)",
        "reactnet_a",
        ("feature.0.conv1.weight", "feature.1.binary_3x3"),
        lambda channels: (channels / reactnet_a.STEM_FILTERS,),
        _reactnet_a,
        "feature.0.conv1.weight",
        "fc.weight",
        IMAGENET,
    ),
    StateLayout(
        "torchvision",
        "mobilenet_v2",
        ("features.0.0.weight", "features.1.conv.0.0.weight"),
        lambda channels: EIGHTHS,
        _torchvision_mobilenet_v2,
        "features.0.0.weight",
        "classifier.1.weight",
        IMAGENET,
    ),
    StateLayout(
        "a chain of modules",
        "mobilenet_v1",
        ("model.0.0.weight", "model.1.3.weight"),
        lambda channels: (channels / mobilenet_v1.STEM_FILTERS,),
        _chained_mobilenet_v1,
        "model.0.0.weight",
        "fc.weight",
        IMAGENET,
    ),
    StateLayout(
        "pytorchcv",
        "mobilenet_v1",
        ("features.init_block.conv.weight", "features.stage1.unit1.dw_conv.conv.weight"),
        lambda channels: (channels / mobilenet_v1.STEM_FILTERS,),
        _staged_mobilenet_v1,
        "features.init_block.conv.weight",
        "output.weight",
        IMAGENET,
    ),
    StateLayout(
        "efficientnet-lite-pytorch",
        "efficientnet_lite0",
        ("_conv_stem.weight", "_blocks.0._depthwise_conv.weight"),
        lambda channels: EIGHTHS,
        _efficientnet_lite,
        "_conv_stem.weight",
        "_fc.weight",
        LITE,
    ),
)
"""A file is of the last layout each of whose markers starts a name in it."""
