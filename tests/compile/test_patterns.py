"""What people write, one small network a pattern: the program against the float network, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from compile.test_networks import as_input, images
from everbit import engine
from everbit.compile.compiler import compile_program
from everbit.compile.image import program_image
from everbit.errors import CompileError
from everbit.nn import BinaryConv2d, Sign
from everbit.quantize.widths import Widths

Step = Callable[["Written", Tensor], Tensor]


class Written(nn.Module):
    """conv, then a forward that a test writes with a few layers at hand, then a head."""

    def __init__(self, step: Step, features: int) -> None:
        super().__init__()
        self.step = step
        self.conv = nn.Conv2d(3, 8, 3, 2, 1)
        self.bn = nn.BatchNorm2d(8)
        self.other = nn.Conv2d(8, 8, 3, padding=1)
        self.other_bn = nn.BatchNorm2d(8)
        self.sign = Sign("ste_sign")
        self.binary = BinaryConv2d(8, 8, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(0.5)
        self.here = nn.Identity()
        self.last = nn.Conv2d(8, 8, 1)
        self.last_bn = nn.BatchNorm2d(8)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 8).view(8, 1, 1))
        self.head = nn.Linear(features, 2)

    def body(self, x: Tensor) -> Tensor:
        return self.step(self, x)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x))
        return logits


def pooled(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def fresh(step: Step, features: int = 8) -> Written:
    """Statistics of data; gammas of both signs."""
    torch.manual_seed(3)
    network = Written(step, features)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    with torch.no_grad():
        network.train()(as_input(images(64, 7)))
    return network.eval()


def outputs(network: Written, cut: str, widths: Widths) -> tuple[np.ndarray, np.ndarray]:
    """Features of the engine and of the float network, [N, F]."""
    pixels = images(16, 7)
    program = compile_program(network, images(64, 7), cut=cut, widths=widths, keep_classifier=True)
    options = {"q_bin": 16, "q_nonbin": 16, "classes": 2, "cwr": True, "learning_rates": [(0, 0)] * 5}
    native = engine.Network(program_image(program), len(pixels), options)
    native.forward(native.encode(pixels))
    index = program.layers[-1].output
    tensor = program.tensors[index]
    raw = np.frombuffer(native.activation(index, len(pixels)), f"<i{tensor.bits // 8}").astype(np.float64)
    found = ((raw - tensor.zero_point) * tensor.scale).reshape(16, tensor.height, tensor.width, tensor.channels)
    with torch.no_grad():
        return found.transpose(0, 3, 1, 2).reshape(16, -1), network.body(as_input(pixels)).double().numpy()


FROZEN: dict[str, tuple[Step, int]] = {
    "functional relu": (lambda n, x: pooled(n.here(functional.relu(n.bn(n.conv(x))))), 8),
    "relu method": (lambda n, x: pooled(n.here(n.conv(x).relu())), 8),
    "torch.relu in place": (lambda n, x: pooled(n.here(torch.relu_(n.bn(n.conv(x))))), 8),
    "functional relu6": (lambda n, x: pooled(n.here(functional.relu6(4 * n.conv(x)))), 8),
    "functional hardtanh": (lambda n, x: pooled(n.here(functional.hardtanh(n.conv(x), -0.3, 0.4))), 8),
    "clamp": (lambda n, x: pooled(n.here(n.conv(x).clamp(min=-0.2))), 8),
    "torch.clamp": (lambda n, x: pooled(n.here(torch.clamp(n.conv(x), max=0.3))), 8),
    "prelu": (lambda n, x: pooled(n.here(functional.prelu(n.conv(x), n.scale.flatten()))), 8),
    "iadd": (lambda n, x: pooled(n.here(_iadd(n, x))), 8),
    "add method": (lambda n, x: pooled(n.here(n.conv(x).add(n.conv(x).relu()))), 8),
    "torch.add": (lambda n, x: pooled(n.here(torch.add(n.conv(x), n.conv(x).relu()))), 8),
    "cat": (lambda n, x: n.here(torch.cat([n.conv(x), n.bn(n.conv(x))], 1)).mean((-2, -1)), 16),
    "torch.concat": (lambda n, x: pooled(n.here(torch.concat((n.conv(x), n.conv(x)), dim=1))), 16),
    "flatten method": (lambda n, x: n.pool(n.pool(n.here(n.conv(x)))).flatten(1), 128),
    "torch.flatten": (lambda n, x: torch.flatten(n.pool(n.pool(n.here(n.conv(x)))), 1), 128),
    "view by size": (lambda n, x: _viewed(n.pool(n.pool(n.here(n.conv(x))))), 128),
    "view by shape": (lambda n, x: n.pool(n.pool(n.here(n.conv(x)))).contiguous().view(x.shape[0], -1), 128),
    "view by length": (lambda n, x: n.pool(n.pool(n.here(n.conv(x)))).contiguous().view(-1, 128), 128),
    "reshape": (lambda n, x: torch.reshape(n.pool(n.pool(n.here(n.conv(x)))), (-1, 128)), 128),
    "mean twice kept": (lambda n, x: n.here(n.conv(x)).mean([2, 3], keepdim=True).flatten(1), 8),
    "torch.mean": (lambda n, x: torch.mean(n.here(n.conv(x)), dim=(2, 3)), 8),
    "amax": (lambda n, x: n.here(n.conv(x)).amax((2, 3)), 8),
    "adaptive average": (lambda n, x: functional.adaptive_avg_pool2d(n.here(n.conv(x)), 1).flatten(1), 8),
    "adaptive maximum": (lambda n, x: functional.adaptive_max_pool2d(n.here(n.conv(x)), (1, 1)).flatten(1), 8),
    "squeeze": (lambda n, x: functional.adaptive_avg_pool2d(n.here(n.conv(x)), 1).squeeze(-1).squeeze(-1), 8),
    "indices": (lambda n, x: functional.adaptive_avg_pool2d(n.here(n.conv(x)), 1)[:, :, 0, 0], 8),
    "max_pool2d": (lambda n, x: pooled(n.here(functional.max_pool2d(n.conv(x), 3, stride=2, padding=1))), 8),
    "avg_pool2d": (lambda n, x: pooled(n.here(functional.avg_pool2d(n.conv(x), 2))), 8),
    "functional dropout": (lambda n, x: pooled(n.here(functional.dropout(n.conv(x), 0.3, n.training))), 8),
    "dropout": (lambda n, x: pooled(n.here(n.dropout(n.conv(x)))), 8),
    "pad": (lambda n, x: pooled(n.here(_padded(n, n.conv(x)))), 8),
    "scalars": (lambda n, x: pooled(n.here(1.5 - (n.conv(x) * 0.5 + 0.25) / 2)), 8),
    "scales by channel": (lambda n, x: pooled(n.here(n.conv(x) * n.scale - n.scale)), 8),
    "batch norm first": (lambda n, x: pooled(n.here(n.other_bn(n.other(n.bn(functional.relu(n.conv(x))))))), 8),
    "functional batch norm": (lambda n, x: pooled(n.here(_batch_norm(n, n.conv(x)))), 8),
    "functional convolution": (
        lambda n, x: pooled(n.here(functional.conv2d(n.conv(x), n.other.weight, n.other.bias, padding=1))),
        8,
    ),
    "xnor order": (lambda n, x: pooled(n.here(n.binary(n.sign(n.bn(n.conv(x)))).relu())), 8),
    "bias behind binary": (lambda n, x: pooled(n.here(n.binary(n.sign(n.conv(x))) + n.scale)), 8),
    "hardtanh before sign": (
        lambda n, x: pooled(n.here(n.other_bn(n.binary(n.sign(functional.hardtanh(n.bn(n.conv(x)))))))),
        8,
    ),
    "conv behind binary": (lambda n, x: pooled(n.here(n.other_bn(n.other(n.bn(n.binary(n.sign(n.conv(x)))))))), 8),
    "sums of binary": (lambda n, x: pooled(n.here(n.binary(n.sign(n.conv(x))) + n.conv(x))), 8),
}
"""All before `here` is frozen, most of it with real weights alone, so that nothing turns by rounding."""


def _iadd(n: Written, x: Tensor) -> Tensor:
    y = n.conv(x)
    y += functional.relu(n.bn(y))
    return y


def _padded(n: Written, x: Tensor) -> Tensor:
    return functional.conv2d(functional.pad(x, (1, 0, 0, 1)), n.other.weight)


def _viewed(x: Tensor) -> Tensor:
    return x.contiguous().view(x.size(0), -1)


def _batch_norm(n: Written, x: Tensor) -> Tensor:
    norm = n.other_bn
    return functional.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_pattern_is_the_network(name: str) -> None:
    step, features = FROZEN[name]
    found, expected = outputs(fresh(step, features), "here", Widths(16, 16, 16, 16))
    assert np.abs(found - expected).max() < 0.01 * np.abs(expected).max()


def _residual(n: Written, x: Tensor) -> Tensor:
    return n.last_bn(n.last(x)).clamp(0, 6) + x


LEARNABLE: dict[str, tuple[Step, int]] = {
    "functional relu": (lambda n, x: pooled(functional.relu(n.last_bn(n.last(n.here(n.conv(x)))))), 8),
    "clamp and add": (lambda n, x: pooled(_residual(n, n.here(n.conv(x)))), 8),
    "dropout": (lambda n, x: pooled(n.dropout(n.last_bn(n.last(n.here(n.conv(x)))))), 8),
    "pools": (lambda n, x: functional.max_pool2d(n.last_bn(n.last(n.here(n.conv(x)))), 2).mean((2, 3)), 8),
    "flatten": (lambda n, x: torch.flatten(n.pool(n.pool(n.last_bn(n.last(n.here(n.conv(x)))))), 1), 128),
    "prelu": (lambda n, x: pooled(functional.prelu(n.last_bn(n.last(n.here(n.conv(x)))), n.scale.flatten())), 8),
    "functional convolution": (
        lambda n, x: pooled(n.last_bn(functional.conv2d(n.here(n.conv(x)), n.last.weight, n.last.bias))),
        8,
    ),
}


@pytest.mark.parametrize("name", LEARNABLE)
def test_a_learnable_pattern_is_the_network(name: str) -> None:
    step, features = LEARNABLE[name]
    found, expected = outputs(fresh(step, features), "here", Widths(16, 16, 16, 16))
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


REFUSED: dict[str, tuple[Step, str]] = {
    "torch.sign": (
        lambda n, x: pooled(n.binary(torch.sign(n.here(n.conv(x))))),
        "sign gives 0 for 0, a third value.*Sign",
    ),
    "sign method": (lambda n, x: pooled(n.binary(n.here(n.conv(x)).sign())), "sign gives 0 for 0.*use everbit.nn.Sign"),
    "no norm behind a convolution": (
        lambda n, x: pooled(n.last(n.here(n.conv(x)))),
        "last: learns, but no batch norm alone reads it; put a batch norm behind it, or cut the network later",
    ),
    "no convolution before a norm": (
        lambda n, x: pooled(n.last_bn(n.here(functional.relu(n.conv(x))).relu())),
        "last_bn: learns, but no convolution that learns stands before it; cut right after it",
    ),
    "sums of binary weights": (
        lambda n, x: pooled(n.binary(n.sign(n.here(n.conv(x)))).relu() + 1.0),
        "takes a constant behind the cut; fold it into a batch norm, or cut the network later",
    ),
    "real values to binary weights": (
        lambda n, x: pooled(n.last_bn(n.binary(n.here(n.conv(x))))),
        "binary: reads real values; put a Sign in front of it",
    ),
    "a product": (lambda n, x: pooled(n.here(n.conv(x) * n.conv(x).relu())), "mul.*has no lowering rule; use "),
    "a difference": (lambda n, x: pooled(n.here(n.conv(x) - n.conv(x).relu())), "sub.*has no lowering rule; use "),
    "a quotient": (lambda n, x: pooled(n.here(2 / n.conv(x))), "truediv divides by an activation"),
    "a multiple": (lambda n, x: pooled(n.here(torch.add(n.conv(x), 1.0, alpha=2))), "add adds a multiple; multiply"),
    "dropout that always drops": (
        lambda n, x: pooled(n.here(functional.dropout(n.conv(x)))),
        "dropout drops values whenever the network runs; pass training=self.training",
    ),
    "a norm of the batch": (
        lambda n, x: pooled(n.here(functional.batch_norm(n.conv(x), None, None, training=True))),
        "batch_norm normalizes by the statistics of each batch",
    ),
    "weights that are computed": (
        lambda n, x: pooled(n.here(functional.conv2d(n.conv(x), n.other(n.conv(x))))),
        "conv2d takes weights that the network computes",
    ),
    "a mean of rows": (lambda n, x: n.here(n.conv(x)).mean(3).flatten(1), "mean reduces the axes 3; reduce height"),
    "a reflecting border": (
        lambda n, x: pooled(n.here(functional.pad(n.conv(x), (1, 1, 1, 1), mode="reflect"))),
        "pad pads .* in mode reflect; pad height and width by a constant",
    ),
    "rows of another length": (
        lambda n, x: n.here(n.conv(x)).view(-1, 512).relu(),
        "makes other rows of a map of 16x16x8; use nn.Flatten",
    ),
    "a squeezed map": (lambda n, x: n.here(n.conv(x)).squeeze(-1).relu(), "makes other rows of a map of 16x16x8"),
    "a squeezed batch": (lambda n, x: n.here(n.conv(x)).squeeze(), "squeeze drops the batch too where it is 1"),
    "a part": (lambda n, x: pooled(n.here(n.conv(x)[:, :4])), "getitem takes a part of an activation"),
    "another shape": (lambda n, x: n.here(n.conv(x)).view(-1, 8, 256), r"view reshapes to \[-1, 8, 256\]"),
    "another axis": (lambda n, x: pooled(n.here(torch.cat([n.conv(x), n.conv(x)], 2))), "cat|joins along something"),
    "constants of rows": (
        lambda n, x: pooled(n.here(n.conv(x) * n.scale.view(1, 8))),
        r"mul takes a constant \[1, 8\]; give it the shape \[C, 1, 1\]",
    ),
    "arguments torch does not know": (
        lambda n, x: pooled(n.here(functional.hardtanh(n.conv(x), 1.0, -1.0))),
        "hardtanh has arguments that torch does not know",
    ),
    "a transpose": (lambda n, x: pooled(n.here(n.conv(x).transpose(2, 3))), "transpose has no lowering rule; use "),
    "another activation": (lambda n, x: pooled(n.here(functional.gelu(n.conv(x)))), "gelu has no lowering rule; use "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_pattern_names_its_place_and_a_cure(name: str) -> None:
    step, message = REFUSED[name]
    with pytest.raises(CompileError, match=message) as error:
        compile_program(Written(step, 8), images(4, 7), cut="here")
    assert ": " in str(error.value)


class Nested(nn.Module):
    """A block in a block, as networks are written."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Sequential(Written(lambda n, x: torch.sgn(x), 8)))

    def forward(self, x: Tensor) -> Tensor:
        return self.stage(x).mean((2, 3))


def test_the_path_of_a_function_is_that_of_its_module() -> None:
    with pytest.raises(CompileError, match=r"^stage\.1\.0: sgn gives 0 for 0"):
        compile_program(Nested(), images(4, 7), cut="stage.0")


def test_functions_can_be_cuts() -> None:
    """By the path of the module around them and torch.fx's name of the step."""
    network = fresh(lambda n, x: pooled(n.last_bn(n.last(functional.relu(n.conv(x))))))
    program = compile_program(network, images(8, 7), cut="relu", widths=Widths(8, 8, 16, 8))
    assert [layer.kind for layer in program.layers[:3]] == ["input", "convolution", "latent"]


def test_a_softmax_at_the_end_is_the_head_s() -> None:
    for end in (nn.Softmax(1), nn.LogSoftmax(1), lambda x: functional.log_softmax(x, dim=1), lambda x: x.softmax(1)):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
        written = Ending(network, end)
        program = compile_program(written, images(8, 7), cut="network.0", keep_classifier=True)
        assert program.head.labels == (0, 1, 2)


class Ending(nn.Module):
    """A network and a step behind it."""

    def __init__(self, network: nn.Module, end: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self.end = network, end

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.network(x))
