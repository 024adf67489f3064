"""Whole networks: the standard algorithm in this code is PyTorch's, the proposed one trains, and both are drop-ins."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from everbit.errors import ConfigurationError
from everbit.nn import BinaryConv2d, BinaryLinear, LearnedBias, RPReLU, Sign, optimizers
from everbit.nn.binary import BinaryWeight
from everbit.nn.low_memory_training import PROPOSED, STANDARD, Approximations, low_memory
from everbit.nn.low_memory_training.packed_signs import PackedSigns
from everbit.zoo.registry import build

CLASSES = 3
BOP = replace(PROPOSED, latent_bits=1)
NETWORKS = {
    "binarynet": 0.0625,
    "mlp": 0.125,
    "birealnet18": 0.0625,
    "vgg_small": 0.0625,
    "quicknet": 0.125,
    "reactnet18": 0.0625,
}


def network(name: str) -> nn.Module:
    torch.manual_seed(3)
    return build(name, width=NETWORKS[name], classes=CLASSES)


def without_ties(name: str) -> nn.Module:
    """A network in which float sums are exact, and no value meets a threshold: else a rounding decides a sign."""
    model = network(name)
    for module in model.modules():
        if isinstance(module, BinaryWeight):
            module.weight.data = torch.where(module.weight >= 0, 0.125, -0.125)
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.bias is not None:
                nn.init.normal_(module.bias, std=0.3)
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 20)
    return model


def batch(name: str, images: int = 6) -> tuple[Tensor, Tensor]:
    torch.manual_seed(4)
    shape = {"mlp": (1, 28, 28), "quicknet": (3, 32, 32), "birealnet18": (3, 16, 16), "reactnet18": (3, 16, 16)}.get(
        name, (3, 32, 32)
    )
    labels = torch.arange(images) % CLASSES
    return torch.rand(images, *shape) + (labels - 1).view(-1, 1, 1, 1), labels


def loss_of(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(model(x), labels)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, labels: Tensor, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, x, labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def same_gradients(found: nn.Module, expected: nn.Module, parts: float) -> None:
    """Those of all parameters but gammas; parts: of each one's length."""
    theirs, compared = dict(expected.named_parameters()), 0
    for name, parameter in found.named_parameters():
        if not parameter.requires_grad:
            assert isinstance(found.get_submodule(name.rpartition(".")[0]), nn.modules.batchnorm._BatchNorm)
            continue
        one, other = parameter.grad, theirs[name].grad
        assert (one - other).norm() <= parts * other.norm() + 1e-6, name
        compared += 1
    assert compared > len(theirs) // 2


@pytest.mark.parametrize("name", NETWORKS)
def test_the_standard_algorithm_is_pytorch_s(name: str) -> None:
    plain, ours = without_ties(name), low_memory(without_ties(name), STANDARD)
    x, labels = batch(name)
    expected, found = loss_of(plain, x, labels), loss_of(ours, x, labels)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    expected.backward()
    found.backward()
    same_gradients(ours, plain, 5e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "bfloat16"},
        {"dtype": "float16"},
        {"batch_norm": "l1"},
        {"weight_gradient_bits": 1},
        {"latent_bits": 16},
        {"latent_bits": 1},
        {"approx_sign": "mask"},
    ],
    ids=str,
)
def test_each_approximation_alone(change: dict[str, object]) -> None:
    """It changes what it is about, and the network still trains."""
    alone = replace(STANDARD, **change)  # type: ignore[arg-type]
    model = low_memory(network("birealnet18"), alone)
    x, labels = batch("birealnet18")
    weights = [module.weight for module in model.modules() if isinstance(module, BinaryWeight)]
    loss_of(model, x, labels).backward()
    for weight in weights:
        assert isinstance(weight.grad, PackedSigns) is (alone.weight_gradient_bits == 1)
        assert weight.dtype == (torch.float32 if alone.latent_bits == 32 else torch.float16)
        assert isinstance(weight, PackedSigns) is (alone.latent_bits == 1)
    seen: set[torch.dtype] = set()
    for module in model.modules():
        if isinstance(module, (Sign, BinaryConv2d, nn.BatchNorm2d)):
            module.register_forward_hook(lambda module, inputs, output: seen.add(output.dtype))
    kind = optimizers.Bop if alone.latent_bits == 1 else optimizers.Adam
    losses = train(model, kind(model.parameters(), lr=1e-3), x, labels, 8)
    assert seen == {getattr(torch, alone.dtype)}
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_proposed_algorithm_trains(name: str) -> None:
    model = low_memory(network(name))
    x, labels = batch(name)
    losses = train(model, optimizers.Adam(model.parameters(), lr=5e-3), x, labels, 12)
    assert min(losses[-3:]) < 0.7 * losses[0]
    assert model(x).dtype == torch.float32


@pytest.mark.parametrize("approximations", [PROPOSED, BOP, STANDARD], ids=str)
@pytest.mark.parametrize("name", ["vgg_small", "reactnet18"])
def test_state_dicts_go_both_ways(name: str, approximations: Approximations) -> None:
    plain = network(name)
    ours = low_memory(network(name), approximations)
    assert list(ours.state_dict()) == list(plain.state_dict())
    x, labels = batch(name)
    optimizer = (optimizers.Bop if approximations is BOP else optimizers.Adam)(ours.parameters(), lr=1e-2)
    train(ours, optimizer, x, labels, 4)
    loss_of(ours, x, labels)  # clips what the last step moved
    state = copy.deepcopy(ours.state_dict())
    plain.load_state_dict(state)
    for one, other in zip(plain.state_dict().values(), state.values(), strict=True):
        assert torch.equal(one, other.to(one.dtype))
    exact = low_memory(network(name), replace(STANDARD, latent_bits=approximations.latent_bits))
    exact.load_state_dict(plain.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(exact.eval()(x), plain.eval()(x), rtol=1e-3, atol=1e-3)
    for assign in (False, True):
        again = low_memory(network(name), approximations)
        again.load_state_dict(state, assign=assign)
        with torch.no_grad():
            assert torch.equal(again.eval()(x), ours.eval()(x))
        for one, other in zip(again.state_dict().values(), state.values(), strict=True):
            assert torch.equal(one, other)
        if approximations is BOP:
            assert all(weight.bits is not None for weight in again.parameters() if isinstance(weight, PackedSigns))


def test_weights_of_one_bit_are_saved_as_plus_and_minus_one() -> None:
    model = low_memory(nn.Sequential(BinaryConv2d(3, 4)), BOP)
    weight = model.state_dict()["0.weight"]
    assert type(weight) is Tensor
    assert weight.dtype == torch.int8
    assert set(weight.unique().tolist()) == {-1, 1}
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict({"0.weight": weight[:, :2]})
    model[0].set_binary(-weight, torch.ones(4))
    assert torch.equal(model.state_dict()["0.weight"], -weight)


@pytest.mark.parametrize("approximations", [PROPOSED, BOP], ids=["latents", "bits"])
@pytest.mark.parametrize("way", ["deepcopy", "file"])
def test_a_copy_trains_on_as_the_original(way: str, approximations: Approximations) -> None:
    model = low_memory(network("vgg_small"), approximations)
    x, labels = batch("vgg_small")
    train(model, optimizers.Bop(model.parameters()), x, labels, 2)
    if way == "deepcopy":
        twin = copy.deepcopy(model)
    else:
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        twin = torch.load(file, weights_only=False)
    ends = [train(one, optimizers.Bop(one.parameters()), x, labels, 3) for one in (model, twin)]
    assert ends[0] == ends[1]
    for one, other in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_half_batches_add_up() -> None:
    """Without batch statistics two halves of a batch give the sum of their one-bit gradients, and the exact whole."""
    for approximations in (PROPOSED, STANDARD):
        model = low_memory(nn.Sequential(BinaryConv2d(3, 4), nn.Flatten()), approximations)
        x = torch.randn(8, 3, 4, 4)
        gradient = torch.randn(8, 64)
        parts = []
        for half in (slice(0, 4), slice(4, 8)):
            model.zero_grad()
            model(x[half]).backward(gradient[half])
            parts.append(model[0].weight.grad.clone() * 1)
        model.zero_grad()
        for half in (slice(0, 4), slice(4, 8)):
            model(x[half]).backward(gradient[half])
        assert torch.equal(model[0].weight.grad * 1, parts[0] + parts[1])
        if approximations is STANDARD:
            model.zero_grad()
            model(x).backward(gradient)
            torch.testing.assert_close(model[0].weight.grad, parts[0] + parts[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("approximations", [PROPOSED, BOP], ids=["latents", "bits"])
def test_accumulated_and_clipped_gradients_train(approximations: Approximations) -> None:
    model = low_memory(network("vgg_small"), approximations)
    x, labels = batch("vgg_small")
    optimizer = optimizers.Bop(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        optimizer.zero_grad(set_to_none=False)
        total = 0.0
        for half in (slice(0, 3), slice(3, 6)):
            loss = loss_of(model, x[half], labels[half])
            loss.backward()
            total += float(loss.detach())
        before = [parameter.grad.float().norm() for parameter in model.parameters() if parameter.requires_grad]
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        torch.testing.assert_close(float(norm), float(torch.stack(before).norm()), rtol=1e-2, atol=0.0)
        after = [parameter.grad.float().norm() for parameter in model.parameters() if parameter.requires_grad]
        assert float(torch.stack(after).norm()) <= 5.1
        optimizer.step()
        losses.append(total)
    assert min(losses[-3:]) < 0.9 * losses[0]


@pytest.mark.parametrize("fused", [False, True])
def test_zeroed_gradients_are_zero(fused: bool) -> None:
    model = low_memory(network("vgg_small"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    loss_of(model, *batch("vgg_small")).backward()
    optimizer.zero_grad(set_to_none=False)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.requires_grad]
    assert all(float(gradient.float().abs().max()) == 0 for gradient in gradients)
    loss_of(model, *batch("vgg_small")).backward()
    assert all(float(gradient.float().abs().max()) > 0 for gradient in gradients)


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, eps=1e-4),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9),
    "foreach": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9, foreach=True),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, eps=1e-4, weight_decay=1e-4),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_torch_s_optimizers_train_it(name: str) -> None:
    model = low_memory(network("vgg_small"))
    x, labels = batch("vgg_small")
    losses = train(model, OPTIMIZERS[name](model.parameters()), x, labels, 10)
    assert min(losses[-3:]) < 0.9 * losses[0]


@pytest.mark.parametrize("name", ["vgg_small", "birealnet18", "quicknet"])
def test_the_layout_of_the_images_does_not_matter(name: str) -> None:
    results = []
    for layout in (torch.contiguous_format, torch.channels_last):
        for of_model in (torch.contiguous_format, torch.channels_last):
            model = low_memory(network(name).to(memory_format=of_model), replace(PROPOSED, dtype="float32"))
            x, labels = batch(name)
            loss = loss_of(model, x.contiguous(memory_format=layout), labels)
            loss.backward()
            results.append((loss.detach(), {n: p.grad for n, p in model.named_parameters() if p.requires_grad}))
    for loss, gradients in results[1:]:
        torch.testing.assert_close(loss, results[0][0], rtol=1e-4, atol=1e-4)
        for parameter, gradient in gradients.items():
            first = results[0][1][parameter]
            if not isinstance(gradient, PackedSigns):
                assert (gradient - first).norm() <= 0.02 * first.norm() + 1e-6, parameter


def test_evaluation_is_the_ordinary_network_s() -> None:
    for name in NETWORKS:
        plain, ours = without_ties(name).eval(), low_memory(without_ties(name), STANDARD).eval()
        x, _ = batch(name)
        for mode in (torch.no_grad(), torch.inference_mode()):
            with mode:
                torch.testing.assert_close(ours(x), plain(x), rtol=1e-4, atol=1e-4)


def test_a_training_pass_without_gradients() -> None:
    for mode in (torch.no_grad(), torch.inference_mode()):
        model = low_memory(network("vgg_small"))
        x, labels = batch("vgg_small")
        with mode:
            without = loss_of(model, x, labels)
        assert not without.requires_grad
        other = low_memory(network("vgg_small"))
        assert float(loss_of(other, x, labels).detach()) == float(without)


def test_frozen_parts_stay_as_they_are() -> None:
    model = network("vgg_small")
    model.block2.requires_grad_(False)
    low_memory(model)
    model.block3.requires_grad_(False)
    frozen = [name for name, _ in model.named_parameters() if name.startswith(("block2", "block3"))]
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    x, labels = batch("vgg_small")
    train(model, optimizers.Adam(model.parameters(), lr=0.01), x, labels, 3)
    for name, parameter in model.named_parameters():
        trained = name not in frozen and parameter.requires_grad
        assert torch.equal(parameter, before[name]) is not trained, name


def test_layers_between() -> None:
    """What low_memory() does not know, or does not change, in every width."""
    for dtype in ("float32", "bfloat16", "float16"):
        torch.manual_seed(5)
        model = low_memory(
            nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1),
                nn.BatchNorm2d(8),
                nn.Hardtanh(inplace=True),
                nn.Dropout(0.1),
                LearnedBias(8),
                Sign(),
                nn.MaxPool2d(2),
                BinaryConv2d(8, 16, 3, 2),
                nn.PReLU(16),
                nn.BatchNorm2d(16),
                nn.PReLU(),
                RPReLU(16),
                nn.ReLU(inplace=True),
                nn.MaxPool2d((2, 1)),
                nn.BatchNorm2d(16),
                Sign("ste_sign"),
                nn.Flatten(),
                BinaryLinear(16 * 2, 12),
                nn.BatchNorm1d(12),
                nn.Linear(12, CLASSES),
            ),
            replace(PROPOSED, dtype=dtype),
        )
        labels = torch.arange(9) % CLASSES
        x = torch.randn(9, 3, 8, 8) + labels.view(-1, 1, 1, 1)
        losses = train(model, optimizers.Adam(model.parameters(), lr=0.01), x, labels, 20)
        assert min(losses[-5:]) < 0.8 * losses[0]
        assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)


def test_what_cannot_be_converted() -> None:
    model = low_memory(network("mlp"))
    with pytest.raises(ConfigurationError, match="trains in low memory already"):
        low_memory(model)
    with pytest.raises(ConfigurationError, match="trains in low memory already"):
        low_memory(nn.Sequential(model, BinaryLinear(3, 3)))
    shared = nn.Sequential(BinaryLinear(3, 3), BinaryLinear(3, 3))
    shared[1].weight = shared[0].weight
    with pytest.raises(ConfigurationError, match="two binary layers share one weight"):
        low_memory(shared)
    with pytest.raises(ConfigurationError, match="has no binary layer"):
        low_memory(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))


@pytest.mark.parametrize(
    ("option", "value"),
    [("dtype", "float8"), ("batch_norm", "l3"), ("weight_gradient_bits", 2), ("latent_bits", 8), ("approx_sign", "x")],
)
def test_wrong_options_are_named(option: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"{option} is {value!r}: choose one of "):
        Approximations(**{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("approximations", [PROPOSED, STANDARD, BOP], ids=["16", "32", "1"])
def test_a_graph_that_is_kept_gives_the_same_gradients_again(approximations: Approximations) -> None:
    """A backward pass changes nothing of what the forward pass kept."""
    model = low_memory(network("vgg_small"), approximations)
    loss = loss_of(model, *batch("vgg_small"))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(loss, parameters), strict=True):
        assert torch.equal(one * 1, other * 1)


def test_hooks_and_names_survive() -> None:
    model = network("vgg_small")
    seen: list[str] = []
    model.block2.conv.register_forward_hook(lambda module, inputs, output: seen.append(type(module).__name__))
    names = [name for name, _ in model.named_parameters()]
    assert low_memory(model) is model
    model(batch("vgg_small")[0])
    assert seen == ["LowMemoryBinaryConv2d"]
    assert [name for name, _ in model.named_parameters()] == names
