"""ONNX models compute in ONNX Runtime what their networks do in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from compile.networks import NETWORKS as SMALL_NETWORKS
from compile.networks import WithHead
from everbit.errors import CompileError, UnsupportedError
from everbit.formats.exporters.onnx import onnx_model, save_onnx
from everbit.formats.importers import load_network
from everbit.nn import BinaryConv2d, BinaryLinear, BlurPool2d, FloorQuantize, LearnedBias, RPReLU, SamePad2d, Sign
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.registry import build
from formats.exporters.running import assert_agrees, random_images, run_onnx, shake

MAP = (11, 9, 3)
"""Height, width and channels of an odd map for single layers."""


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_of_the_zoo(name: str) -> None:
    torch.manual_seed(0)
    stem = "cifar" if "cifar" in NETWORKS[name].stems else NETWORKS[name].stem
    network = shake(build(name, 0.25, 10, stem))
    shape = NETWORKS[name].stems[stem]
    model = assert_agrees(network, shape)
    images = random_images(shape, 8, seed=1)
    with torch.no_grad():
        expected = network(torch.from_numpy(images)).argmax(dim=1)
    np.testing.assert_array_equal(run_onnx(model, images).argmax(axis=1), expected)
    binary = sum(m.weight.numel() for m in network.modules() if isinstance(m, (BinaryConv2d, BinaryLinear)))
    others = sum(value.numel() for value in network.state_dict().values()) - binary
    assert model.ByteSize() < binary + 4 * others + 100_000  # a byte for each binary weight


def test_stems_for_large_images() -> None:
    for name in ("quicknet", "birealnet18"):
        torch.manual_seed(0)
        assert_agrees(shake(build(name, 0.125, 10, "imagenet")), (96, 64, 3))


@pytest.mark.parametrize("name", SMALL_NETWORKS)
def test_networks_that_are_compiled(name: str) -> None:
    torch.manual_seed(0)
    assert_agrees(shake(WithHead(SMALL_NETWORKS[name][0]())), (32, 32, 3))


class Functional(nn.Module):
    """Steps as functions and methods."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(6 * 11 * 9 + 12, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.conv(x))
        y += torch.add(x, functional.relu6(x)).relu()
        both = torch.cat([y, x], dim=1)
        means = torch.cat((both.mean((2, 3)), torch.mean(both, dim=[-1, -2], keepdim=True).flatten(1)), 1)
        rows = torch.cat([both.view(x.size(0), -1), means], dim=-1)
        return self.head(torch.relu(torch.flatten(rows * 0.5 + 1, 1)))


def binary(**options: object) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(Sign(), BinaryConv2d(3, 5, **options))  # type: ignore[arg-type]


LAYERS: dict[str, Callable[[], nn.Module]] = {
    **{
        f"binary, padding {padding}, border {value}, stride {stride}": binary(
            padding=padding, pad_value=value, stride=stride, scale=value != 0
        )
        for padding in (0, 1, 2, "same")
        for value in (-1, 0, 1)
        for stride in (1, 2)
    },
    "binary, even kernel": binary(kernel_size=2, padding="same", pad_value=1),
    "binary dense": lambda: nn.Sequential(nn.Flatten(), Sign(), BinaryLinear(297, 7)),
    "convolution, all options": lambda: nn.Conv2d(3, 6, (3, 2), (1, 2), (2, 1), (2, 1), groups=3),
    "convolution, same": lambda: nn.Conv2d(3, 4, (4, 3), padding="same", dilation=(1, 2), bias=False),
    "convolution, valid": lambda: nn.Conv2d(3, 4, 3, padding="valid"),
    "batch norm of rows": lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(297, eps=0.0, affine=False)),
    "batch norm": lambda: nn.BatchNorm2d(3, eps=0.1),
    "learned bias": lambda: LearnedBias(3),
    "rprelu": lambda: RPReLU(3),
    "floor": lambda: FloorQuantize(5),
    "hardtanh": lambda: nn.Hardtanh(-0.3, 1 - 2.0**-7),
    "relu6 of relu": lambda: nn.Sequential(nn.ReLU(inplace=True), nn.ReLU6()),
    "nothing": lambda: nn.Sequential(nn.Identity(), nn.Dropout(), nn.Dropout2d()),
    "same pad": lambda: nn.Sequential(SamePad2d(3, 2), nn.Conv2d(3, 3, 3, 2)),
    "same pad of -inf": lambda: nn.Sequential(SamePad2d(4, 3, float("-inf")), nn.MaxPool2d(4, 3)),
    "same pad of nothing": lambda: nn.Sequential(SamePad2d(1, 2), nn.MaxPool2d(1, 2)),
    "constant pad": lambda: nn.Sequential(nn.ConstantPad2d((1, 0, 2, 3), -0.5), nn.ZeroPad2d((0, 2, 0, 0))),
    **{
        f"blur, padding {padding}, stride {stride}": lambda padding=padding, stride=stride: BlurPool2d(stride, padding)
        for padding in (0, 1, 2, "same")
        for stride in (1, 2)
    },
    **{
        f"average {options}": lambda options=options: nn.AvgPool2d(**options)
        for options in (
            {"kernel_size": 2},
            {"kernel_size": (3, 2), "stride": (1, 3)},
            *(
                {"kernel_size": 4, "stride": 3, "padding": border, "ceil_mode": up, "count_include_pad": count}
                for border in (0, 1, 2)
                for up in (False, True)
                for count in (False, True)
            ),
            {"kernel_size": 2, "stride": 5, "ceil_mode": True},
        )
    },
    **{
        f"maximum {options}": lambda options=options: nn.MaxPool2d(**options)
        for options in (
            {"kernel_size": 3, "stride": 2, "padding": 1},
            {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (2, 3)},
            *({"kernel_size": 4, "stride": 3, "padding": border, "ceil_mode": True} for border in (0, 1, 2)),
            {"kernel_size": 2, "stride": 5, "ceil_mode": True},
        )
    },
    "global average": lambda: nn.AdaptiveAvgPool2d((1, 1)),
    "global maximum": lambda: nn.AdaptiveMaxPool2d(1),
    "functions": Functional,
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer(name: str) -> None:
    torch.manual_seed(0)
    assert_agrees(nn.Sequential(shake(LAYERS[name]()), nn.Flatten()), MAP)


def test_a_module_that_is_called_twice() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pad, self.conv = SamePad2d(3, 2, 1.0), nn.Conv2d(3, 3, 3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return torch.flatten(self.conv(self.pad(self.conv(self.pad(x)))), 1)

    model = assert_agrees(Twice(), (9, 10, 3))
    assert [t.name for t in model.graph.initializer].count("conv.weight") == 1


def test_zeros_have_the_sign_plus_one() -> None:
    """Of 0.0 and of -0.0, in activations and in weights."""
    conv = BinaryConv2d(1, 2, 1, padding=0, scale=False)
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([0.0, -0.0]).view(2, 1, 1, 1))
    network = nn.Sequential(Sign(), conv, nn.Flatten()).eval()
    images = np.array([0.0, -0.0, 1e-45, -1e-45, np.inf, -np.inf], np.float32).reshape(6, 1, 1, 1)
    expected = np.array([1, 1, 1, -1, 1, -1], np.float32)
    found = run_onnx(onnx_model(network, (1, 1, 1)), images)
    with torch.no_grad():
        np.testing.assert_array_equal(network(torch.from_numpy(images)).numpy(), found)
    np.testing.assert_array_equal(found, np.stack([expected, expected], axis=1))


def test_a_network_whose_every_sign_reads_zeros() -> None:
    """Batch norms of slope 0 and bias -0: what each sign reads is exactly 0 or -0."""
    torch.manual_seed(0)
    network = build("birealnet18", 0.25, 10, "cifar").eval()
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.weight.zero_()
                module.bias.fill_(-0.0)
    images = random_images((32, 32, 3))
    with torch.no_grad():
        features = network.get_submodule("stem")(torch.from_numpy(images))
        assert bool((features == 0).all()) and bool(torch.signbit(features).any())
        expected = network(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(run_onnx(onnx_model(network, (32, 32, 3)), images), expected, atol=1e-6)


def test_what_the_model_says_of_itself() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 4))
    model = onnx_model(network, (2, 2, 3), "features", {"network": "dense"})
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert (model.producer_name, model.producer_version) == (facts["producer"], facts["version"])
    assert facts["network"] == "dense" and facts["input"].startswith("images / 127.5 - 1")
    (image,), (output,) = model.graph.input, model.graph.output
    assert (image.name, output.name) == ("image", "features")
    for value, sizes in ((image, [3, 2, 2]), (output, [4])):
        first, *rest = value.type.tensor_type.shape.dim
        assert first.dim_param == "N" and [dim.dim_value for dim in rest] == sizes
    assert [entry.version for entry in model.opset_import] == [17]


def test_binary_weights_are_single_bytes() -> None:
    conv = BinaryConv2d(3, 4, 3, scale=True)
    model = onnx_model(nn.Sequential(Sign(), conv, nn.Flatten()), MAP)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert stored["1.signs"].dtype == np.int8
    weight = stored["1.signs"].astype(np.float32) * stored["1.alpha"]
    np.testing.assert_array_equal(weight, conv.binary_weight().detach().numpy())


class NoRow(nn.Module):
    """Returns whatever `give` makes of the image."""

    def __init__(self, give: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.give = give

    def forward(self, x: Tensor) -> object:
        return self.give(x)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Sequential(nn.Sequential(nn.ReLU(), nn.GELU()), nn.Flatten()), r"^0\.0\.1: GELU has no rule"),
        (NoRow(lambda x: torch.sin(x).flatten(1)), r"call_function sin has no rule"),
        (NoRow(lambda x: x.sin().flatten(1)), r"call_method sin has no rule"),
        (NoRow(lambda x: torch.cat([x, x]).flatten(1)), r"joins along the batch"),
        (NoRow(lambda x: torch.flatten(x)), r"changes the batch"),
        (NoRow(lambda x: x.mean(0).flatten(1)), r"mean reduces the axes"),
        (NoRow(lambda x: x.mean()), r"mean reduces the axes"),
        (NoRow(lambda x: (x.flatten(1), x)), r"returns no row of values"),
        (nn.ReLU(), r"returns no row of values"),
        (nn.Linear(9, 4), r"reads no rows"),
        (nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), r"pads by circular"),
        (nn.Conv2d(4, 4, 3), r"does not run on images \[2, 3, 11, 9\]"),
        (nn.ZeroPad2d(-1), r"cuts the map"),
        (nn.AvgPool2d(2, divisor_override=3), r"has a divisor of its own"),
        (nn.AdaptiveAvgPool2d(2), r"pools to more than one place"),
        (nn.BatchNorm2d(3, track_running_stats=False), r"keeps no statistics"),
        (nn.MaxPool2d(2, return_indices=True), r"returns no row of values"),
    ],
)
def test_what_cannot_be_exported_is_named(network: nn.Module, message: str) -> None:
    with pytest.raises((CompileError, UnsupportedError), match=message):
        onnx_model(nn.Sequential(network), MAP)


def test_a_network_that_cannot_be_traced() -> None:
    with pytest.raises(CompileError, match="cannot be traced"):
        onnx_model(NoRow(lambda x: x if x.sum() > 0 else -x), MAP)


def test_the_same_network_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        torch.manual_seed(3)
        save_onnx(onnx_model(build("vgg_small", 0.125, 10), (32, 32, 3)), tmp_path / "made" / name)
    assert (tmp_path / "made" / "a.onnx").read_bytes() == (tmp_path / "made" / "b.onnx").read_bytes()
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["a.onnx", "b.onnx"]
    onnx.checker.check_model(str(tmp_path / "made" / "a.onnx"), full_check=True)


@pytest.mark.parametrize("name", ["quicknet", "quicknet_small"])
def test_an_imported_quicknet(research_data: Path, name: str) -> None:
    """With images and with the outputs of larq's programs: signs of sums next to 0 turn with a float's last bit."""
    found = load_network(research_data / "peers" / f"{name}_random.tflite")
    with np.load(research_data / "peers" / f"{name}_random_io.npz") as file:
        images, expected = file["images"], file["lce_output"]
    model = onnx_model(found.network, found.input_shape)
    assert model.ByteSize() < 17e6
    logits = run_onnx(model, (images.transpose(0, 3, 1, 2) / 127.5 - 1).astype(np.float32))
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (logits, np.log(expected)))
    assert ((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1) > 0.97).all()
    np.testing.assert_array_equal(logits.argmax(axis=1), expected.argmax(axis=1))
