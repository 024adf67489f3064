"""State dicts with published names and random values, and what the networks they are of compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

State = dict[str, Tensor]


class States:
    """Makes tensors of a state dict as they are asked for, and computes with them."""

    def __init__(self, seed: int = 0) -> None:
        self.state: State = {}
        self.generator = torch.Generator().manual_seed(seed)

    def tensor(self, name: str, *shape: int, scale: float = 1.0, shift: float = 0.0) -> Tensor:
        if name not in self.state:
            self.state[name] = torch.randn(shape, generator=self.generator) * scale + shift
        return self.state[name]

    def conv(
        self, name: str, x: Tensor, outputs: int, kernel: int, stride: int = 1, groups: int = 1, padding: int = -1
    ) -> Tensor:
        inputs = x.shape[1] // groups
        weight = self.tensor(f"{name}.weight", outputs, inputs, kernel, kernel, scale=(inputs * kernel**2) ** -0.5)
        border = kernel // 2 if padding < 0 else padding
        return functional.conv2d(x, weight, stride=stride, padding=border, groups=groups)

    def norm(self, name: str, x: Tensor, epsilon: float = 1e-5) -> Tensor:
        channels = x.shape[1]
        weight = self.tensor(f"{name}.weight", channels, scale=0.1, shift=1.0)
        bias = self.tensor(f"{name}.bias", channels, scale=0.3)
        mean = self.tensor(f"{name}.running_mean", channels, scale=0.3)
        if f"{name}.running_var" not in self.state:
            self.state[f"{name}.running_var"] = torch.rand(channels, generator=self.generator) + 0.5
        self.state[f"{name}.num_batches_tracked"] = torch.tensor(7)
        return functional.batch_norm(x, mean, self.state[f"{name}.running_var"], weight, bias, eps=epsilon)

    def linear(self, name: str, x: Tensor, outputs: int) -> Tensor:
        pooled = x.mean(dim=(2, 3))
        weight = self.tensor(f"{name}.weight", outputs, pooled.shape[1], scale=0.1)
        return functional.linear(pooled, weight, self.tensor(f"{name}.bias", outputs))

    def binary(self, name: str, x: Tensor, outputs: int, kernel: int, stride: int = 1, column: bool = True) -> Tensor:
        """Signs of x and of the weights, times the mean size of each filter; weights in one column, or as they are."""
        shape = (outputs, x.shape[1], kernel, kernel)
        stored = self.tensor(name, *((outputs * x.shape[1] * kernel**2, 1) if column else shape), scale=0.4)
        weight = stored.view(shape)
        scale = weight.abs().mean(dim=(1, 2, 3), keepdim=True)
        return functional.conv2d(x.sign(), weight.sign() * scale, stride=stride, padding=kernel // 2)

    def move(self, name: str, x: Tensor) -> Tensor:
        return x + self.tensor(f"{name}.bias", 1, x.shape[1], 1, 1, scale=0.3)

    def prelu(self, name: str, x: Tensor) -> Tensor:
        return functional.prelu(x, self.tensor(f"{name}.weight", x.shape[1], scale=0.1, shift=0.25))


def _residual(react: bool, column: bool, large_stem: bool) -> Callable[[States, Tensor], Tensor]:
    weight = "weights" if column else "weight"

    def network(s: States, x: Tensor) -> Tensor:
        x = s.norm("bn1", s.conv("conv1", x, 8, 7 if large_stem else 3, 2 if large_stem else 1))
        if large_stem:
            x = functional.max_pool2d(x, 3, 2, 1)
        for stage, channels in enumerate((8, 16, 32, 64), start=1):
            for block in range(4):
                name = f"layer{stage}.{block}"
                stride = 2 if stage > 1 and block == 0 else 1
                moved = s.move(f"{name}.move0", x) if react else x
                y = s.norm(f"{name}.bn1", s.binary(f"{name}.binary_conv.{weight}", moved, channels, 3, stride, column))
                if stride == 2:
                    x = s.conv(f"{name}.downsample.1", functional.avg_pool2d(x, 2), channels, 1)
                    x = s.norm(f"{name}.downsample.2", x)
                x = x + y
                if react:
                    x = s.move(f"{name}.move2", s.prelu(f"{name}.prelu", s.move(f"{name}.move1", x)))
        return s.linear("fc", x, 5)

    return network


def _reactnet_a(s: States, x: Tensor) -> Tensor:
    x = s.norm("feature.0.bn1", s.conv("feature.0.conv1", x, 4, 3, 2))
    for index, channels in enumerate((8, 16, 16, 32, 32, *[64] * 6, 128, 128), start=1):
        name, before = f"feature.{index}", x.shape[1]
        stride = 2 if before != channels and index > 1 else 1
        moved = s.move(f"{name}.move11", x)
        y = s.norm(f"{name}.bn1", s.binary(f"{name}.binary_3x3.weights", moved, before, 3, stride))
        x = (functional.avg_pool2d(x, 2) if stride == 2 else x) + y
        x = s.move(f"{name}.move13", s.prelu(f"{name}.prelu1", s.move(f"{name}.move12", x)))
        moved = s.move(f"{name}.move21", x)
        if before == channels:
            x = x + s.norm(f"{name}.bn2", s.binary(f"{name}.binary_pw.weights", moved, channels, 1))
        else:
            parts = [
                x + s.norm(f"{name}.bn2_{n}", s.binary(f"{name}.binary_pw_down{n}.weights", moved, before, 1))
                for n in (1, 2)
            ]
            x = torch.cat(parts, dim=1)
        x = s.move(f"{name}.move23", s.prelu(f"{name}.prelu2", s.move(f"{name}.move22", x)))
    return s.linear("fc", x, 5)


def _mobilenet_v2(s: States, x: Tensor) -> Tensor:
    def step(name: str, x: Tensor, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> Tensor:
        return s.norm(f"{name}.1", s.conv(f"{name}.0", x, outputs, kernel, stride, groups)).clamp(0, 6)

    x = step("features.0", x, 16, 3, 2)
    index = 0
    for expansion, channels, count, first in (
        (1, 8, 1, 1),
        (6, 8, 2, 2),
        (6, 16, 3, 2),
        (6, 24, 4, 2),
        (6, 32, 3, 1),
        (6, 56, 3, 2),
        (6, 112, 1, 1),
    ):
        for n in range(count):
            index += 1
            name, stride, inputs = f"features.{index}.conv", first if n == 0 else 1, x.shape[1]
            y = step(f"{name}.0", x, inputs * expansion, 1) if expansion > 1 else x
            depth = 1 if expansion > 1 else 0
            y = step(f"{name}.{depth}", y, y.shape[1], 3, stride, y.shape[1])
            y = s.norm(f"{name}.{depth + 2}", s.conv(f"{name}.{depth + 1}", y, channels, 1))
            x = x + y if stride == 1 and inputs == channels else y
    return s.linear("classifier.1", step("features.18", x, 1280, 1), 5)


def _v1_blocks() -> Iterator[tuple[int, int]]:
    plan = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
    yield from ((channels // 8, stride) for channels, stride in plan)


def _chained_v1(s: States, x: Tensor) -> Tensor:
    x = functional.relu(s.norm("model.0.1", s.conv("model.0.0", x, 4, 3, 2))).clamp(max=6)
    for index, (channels, stride) in enumerate(_v1_blocks(), start=1):
        x = s.norm(f"model.{index}.1", s.conv(f"model.{index}.0", x, x.shape[1], 3, stride, x.shape[1])).clamp(0, 6)
        x = s.norm(f"model.{index}.4", s.conv(f"model.{index}.3", x, channels, 1)).clamp(0, 6)
    return s.linear("fc", x, 5)


def _staged_v1(s: States, x: Tensor) -> Tensor:
    x = s.norm("features.init_block.bn", s.conv("features.init_block.conv", x, 4, 3, 2)).clamp(0, 6)
    units = {1: 1, 2: 2, 3: 2, 4: 6, 5: 2}
    plan = _v1_blocks()
    for stage, count in units.items():
        for unit in range(1, count + 1):
            name = f"features.stage{stage}.unit{unit}"
            channels, stride = next(plan)
            y = s.conv(f"{name}.dw_conv.conv", x, x.shape[1], 3, stride, x.shape[1])
            y = s.norm(f"{name}.dw_conv.bn", y).clamp(0, 6)
            x = s.norm(f"{name}.pw_conv.bn", s.conv(f"{name}.pw_conv.conv", y, channels, 1)).clamp(0, 6)
    return s.linear("output", x, 5)


NETWORKS: dict[str, tuple[str, float, str, Callable[[States, Tensor], Tensor]]] = {
    "bireal": ("birealnet18", 0.125, "imagenet", _residual(react=False, column=True, large_stem=True)),
    "bireal cifar": ("birealnet18", 0.125, "cifar", _residual(react=False, column=True, large_stem=False)),
    "react": ("reactnet18", 0.125, "imagenet", _residual(react=True, column=False, large_stem=True)),
    "react, weights in a column": ("reactnet18", 0.125, "imagenet", _residual(True, True, True)),
    "reactnet a": ("reactnet_a", 0.125, "imagenet", _reactnet_a),
    "torchvision mobilenet v2": ("mobilenet_v2", 0.35, "imagenet", _mobilenet_v2),
    "chained mobilenet v1": ("mobilenet_v1", 0.125, "imagenet", _chained_v1),
    "staged mobilenet v1": ("mobilenet_v1", 0.125, "imagenet", _staged_v1),
}
"""Architecture, width and stem of the zoo, and the network, by what it is."""


def published(name: str, seed: int = 0) -> State:
    """A state dict."""
    states = States(seed)
    NETWORKS[name][3](states, torch.zeros(1, 3, 64, 64))
    return states.state


def computed(name: str, state: State, x: Tensor) -> Tensor:
    """Logits of the network of a state dict for normalized images."""
    states = States()
    states.state = dict(state)
    with torch.no_grad():
        return NETWORKS[name][3](states, x)
