"""The networks of the zoo: where each may be cut, the images it takes, where it comes from. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from everbit.errors import ConfigurationError

Shape = tuple[int, int, int]  # height, width, channels

INPUT_SHAPE: Shape = (32, 32, 3)
"""The images that the packaged networks are trained on."""

_CIFAR = {"cifar": INPUT_SHAPE}
_IMAGENET = {"imagenet": (224, 224, 3)}

SIZE_STEP, MOST_SIZE = 32, 1024
"""Pixels a side of images that a network takes where it pools its last map as a whole: a stem for ImageNet and what
stands behind it halve the size five times, and shortcuts need it to be even each time."""

CLASSES = {"cifar": 10, "imagenet": 1000, "mnist": 10}
"""Classes of a network that was not told how many, by its stem."""


@dataclass(frozen=True)
class Network:
    """Facts of one network.

    stems: the first layers it can have, with the images each is made for; the first is the default. latents: modules
    after which it is usually cut; the first is the default. norm_values: how many numbers of a batch-norm channel its
    paper counts as parameters: 4 as they are stored, or 2 as they run. paper: what describes it. one_size: whether
    dense layers read its whole map, so that it takes images of no other size.
    """

    stems: dict[str, Shape]
    latents: tuple[str, ...]
    norm_values: int
    paper: str
    one_size: bool = False

    @property
    def stem(self) -> str:
        """The default stem."""
        return next(iter(self.stems))


_LARQ = "Bannink et al., Larq Compute Engine, MLSys 2021, arXiv 2011.09398"
_QUICKNET_LATENTS = ("transition3.blur", "transition2.blur")

NETWORKS = {
    "quicknet": Network({**_IMAGENET, **_CIFAR}, _QUICKNET_LATENTS, 2, _LARQ),
    "quicknet_small": Network({**_IMAGENET, **_CIFAR}, _QUICKNET_LATENTS, 2, _LARQ),
    "quicknet_large": Network({**_IMAGENET, **_CIFAR}, _QUICKNET_LATENTS, 2, _LARQ),
    "birealnet18": Network(
        {**_CIFAR, **_IMAGENET},
        ("stage4.block1", "stage3.block1"),
        4,
        "Liu et al., Bi-Real Net, ECCV 2018, arXiv 1808.00278",
    ),
    "reactnet18": Network(
        {**_CIFAR, **_IMAGENET},
        ("stage4.block1", "stage4.block1.add", "stage3.block4.add"),
        4,
        "Liu et al., ReActNet, ECCV 2020, arXiv 2003.03488",
    ),
    "reactnet_a": Network(
        {**_IMAGENET, **_CIFAR}, ("block12", "block11"), 4, "Liu et al., ReActNet, ECCV 2020, arXiv 2003.03488"
    ),
    "vgg_small": Network(
        _CIFAR,
        ("block5", "block5.conv"),
        4,
        "Cai et al., Half-wave Gaussian quantization, CVPR 2017, arXiv 1702.00953",
        one_size=True,
    ),
    "binarynet": Network(
        _CIFAR,
        ("block6", "dense1", "block5"),
        2,
        "Hubara et al., Binarized neural networks, 2016, arXiv 1602.02830",
        one_size=True,
    ),
    "cnv": Network(
        _CIFAR, ("block5", "block4"), 2, "Umuroglu et al., FINN, FPGA 2017, arXiv 1612.07119", one_size=True
    ),
    "mlp": Network(
        {"mnist": (28, 28, 1)},
        ("dense1", "dense2"),
        2,
        "Wang et al., ACM TECS 2023, arXiv 2102.04270",
        one_size=True,
    ),
    "mobilenet_v1": Network(
        {**_IMAGENET, **_CIFAR}, ("block12", "block11"), 2, "Howard et al., MobileNets, 2017, arXiv 1704.04861"
    ),
    "mobilenet_v2": Network(
        {**_IMAGENET, **_CIFAR}, ("block16", "block13"), 2, "Sandler et al., MobileNetV2, CVPR 2018, arXiv 1801.04381"
    ),
    "efficientnet_lite0": Network(
        {**_IMAGENET, **_CIFAR}, ("block15", "block11"), 2, "Tan and Le, EfficientNet, ICML 2019, arXiv 1905.11946"
    ),
}
"""By name. Latents are those of V24 for its networks: ReAct-18 is cut there at a sum inside of a block."""

DEFAULT_CUTS = {name: network.latents[0] for name, network in NETWORKS.items()}
"""The module whose output is the latent unless the user says otherwise, by the network's name."""

WHOLE_NETWORK = "input"
"""The name of the cut in front of everything: the latent is the image, and every layer learns."""


def require_network(name: str, stem: str | None = None) -> Network:
    """The facts of a network. Raises ConfigurationError for a name that is none of the zoo, or a stem it has not."""
    if name not in NETWORKS:
        raise ConfigurationError(f"unknown network {name!r}: choose one of {', '.join(NETWORKS)}")
    network = NETWORKS[name]
    if stem is not None and stem not in network.stems:
        raise ConfigurationError(f"{name} has no stem {stem!r}: choose one of {', '.join(network.stems)}")
    return network


def usual_cuts(name: str | None) -> tuple[str, ...]:
    """Modules after which a network of the zoo is usually cut, the default first; none for any other name."""
    return NETWORKS[name].latents if name in NETWORKS else ()


def image_shape(name: str, stem: str, size: int | None = None) -> Shape:
    """The images that a network takes: those its stem is made for, or of another size, so many pixels a side.

    Raises ConfigurationError for a size that the network cannot take.
    """
    network = require_network(name, stem)
    height, width, channels = network.stems[stem]
    if size is None or (size, size) == (height, width):
        return height, width, channels
    if network.one_size:
        raise ConfigurationError(f"{name} takes images of {height}x{width} pixels alone: leave --image-size out")
    if size % SIZE_STEP or not SIZE_STEP <= size <= MOST_SIZE:
        raise ConfigurationError(f"the image size is {size}: choose a multiple of {SIZE_STEP} up to {MOST_SIZE} pixels")
    return size, size, channels


def nearest_stem(name: str, height: int) -> str:
    """The stem of a network that is made for images nearest to that height."""
    stems = require_network(name).stems
    return min(stems, key=lambda stem: abs(stems[stem][0] - height))
