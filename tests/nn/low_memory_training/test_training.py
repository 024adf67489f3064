"""Training over many steps, and with batches of every size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from everbit.nn import BinaryConv2d, BinaryLinear, Sign, optimizers
from everbit.nn.low_memory_training import PROPOSED, STANDARD, Approximations, low_memory

CLASSES = 3


def tiny(pad_value: int = 0) -> nn.Module:
    """A real input, a pool, a pad value, dense layers: all that BinaryNet has."""
    return nn.Sequential(
        BinaryConv2d(1, 8, pad_value=pad_value, scale=False),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(8),
        Sign("ste_sign"),
        BinaryConv2d(8, 16, pad_value=pad_value),
        nn.BatchNorm2d(16),
        nn.Flatten(),
        Sign("ste_sign"),
        BinaryLinear(64, 12, scale=False),
        nn.BatchNorm1d(12),
        Sign("ste_sign"),
        BinaryLinear(12, CLASSES, scale=False),
        nn.BatchNorm1d(CLASSES),
    )


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": lambda parameters: optimizers.Adam(parameters, lr=1e-2),
    "sgd": lambda parameters: optimizers.SGD(parameters, lr=1e-2),
    "bop": lambda parameters: optimizers.Bop(parameters, lr=1e-2),
}


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, shape: tuple[int, ...], count: int) -> torch.Tensor:
    """Losses of so many steps on new random images, whose class is their brightness."""
    losses = []
    for _ in range(count):
        labels = torch.randint(0, CLASSES, (6,))
        x = torch.randn(6, *shape) + labels.view(-1, *[1] * len(shape)) * 2
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def float16(name: str, model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    low_memory(model, Approximations("float16", latent_bits=1 if name == "bop" else 16))
    return model, OPTIMIZERS[name](model.parameters())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_thousand_steps_in_float16_stay_finite(name: str) -> None:
    first, second = BinaryLinear(4, 16, scale=False), BinaryLinear(16, CLASSES)
    network = nn.Sequential(first, nn.BatchNorm1d(16), Sign("ste_sign"), second, nn.BatchNorm1d(CLASSES))
    model, optimizer = float16(name, network)
    losses = steps(model, optimizer, (4,), 1000)
    assert losses.isfinite().all()
    assert all(value.isfinite().all() for value in model.state_dict().values())
    assert losses[-200:].mean() < 0.8 * losses[:20].mean()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_equal_images_in_float16_stay_finite(name: str) -> None:
    """All channels are constant: each batch norm multiplies gradients by 1 / sqrt(eps), soon beyond float16."""
    model, optimizer = float16(name, tiny())
    for _ in range(3):
        optimizer.zero_grad()
        functional.cross_entropy(model(torch.zeros(6, 1, 4, 4)), torch.arange(6) % CLASSES).backward()
        optimizer.step()
        assert steps(model, optimizer, (1, 4, 4), 5).isfinite().all()
    assert all(value.isfinite().all() for value in model.state_dict().values())


@pytest.mark.parametrize("pad_value", [-1, 0, 1])
@pytest.mark.parametrize("approximations", [PROPOSED, STANDARD, Approximations("float16")], ids=["bf16", "f32", "f16"])
def test_batches_of_one_and_a_smaller_last_one(approximations: Approximations, pad_value: int) -> None:
    model = low_memory(tiny(pad_value), approximations)
    optimizer = optimizers.Adam(model.parameters())
    for images in (7, 1, 5, 1, 1):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(torch.randn(images, 1, 4, 4)), torch.arange(images) % CLASSES)
        loss.backward()
        optimizer.step()
        assert loss.isfinite()
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    with torch.no_grad():
        assert model.eval()(torch.randn(1, 1, 4, 4)).shape == (1, CLASSES)


def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads() -> None:
    ends = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        model = low_memory(tiny(), Approximations("float32"))
        optimizer = optimizers.Adam(model.parameters())
        for _ in range(3):
            loss = functional.cross_entropy(model(torch.randn(6, 1, 4, 4)), torch.arange(6) % CLASSES)
            loss.backward()
            optimizer.step()
        ends.append(model.state_dict())
    for end in ends[1:]:
        for one, other in zip(end.values(), ends[0].values(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: low-memory training on one was not tested")
@pytest.mark.parametrize("approximations", [PROPOSED, STANDARD, Approximations(latent_bits=1)], ids=["16", "32", "1"])
def test_cuda(approximations: Approximations) -> None:
    model = low_memory(tiny(1), approximations).cuda()
    twin = low_memory(tiny(1), approximations)
    twin.load_state_dict(model.state_dict())
    x, labels = torch.randn(6, 1, 4, 4), torch.arange(6) % CLASSES
    for one, at, device in ((model, x.cuda(), "cuda"), (twin, x, "cpu")):
        functional.cross_entropy(one(at), labels.to(device)).backward()
        optimizers.Bop(one.parameters()).step()
    for (name, one), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        if not name.endswith("weight"):
            torch.testing.assert_close(one.cpu().float(), other.float(), rtol=0.1, atol=5e-3)
