"""The optimizers against PyTorch's in float64, in every width, layout and kind of gradient."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from everbit.errors import ConfigurationError
from everbit.nn.low_memory_training.packed_signs import PackedSigns, sign_bits
from everbit.nn.low_memory_training.rows import TILE, empty
from everbit.nn.optimizers import SGD, Adam, Bop

SHAPES = [(), (5,), (3, 65), (4, 3, 5), (6, 65, 3, 3), (2, 1, 3, 3), (300, 300)]
PAIRS: dict[str, tuple[Callable[..., torch.optim.Optimizer], Callable[..., torch.optim.Optimizer]]] = {
    "adam": (lambda p: Adam(p, lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
    "other adam": (
        lambda p: Adam(p, 0.1, (0.5, 0.9), 1e-3),
        lambda p: torch.optim.Adam(p, 0.1, (0.5, 0.9), 1e-3),
    ),
    "bop": (lambda p: Bop(p, lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
    "sgd": (lambda p: SGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "plain sgd": (lambda p: SGD(p, lr=0.1, momentum=0.0), lambda p: torch.optim.SGD(p, lr=0.1)),
}


def laid(x: Tensor, layout: str) -> Tensor:
    if layout == "channels last" and x.dim() > 1:
        return empty(x.shape, x.dtype, x.device).copy_(x)
    if layout == "transposed" and x.dim() > 1:
        return x.transpose(0, 1).contiguous().transpose(0, 1)
    return x.contiguous()


@pytest.mark.parametrize("layout", ["contiguous", "channels last", "transposed"])
@pytest.mark.parametrize("name", PAIRS)
def test_float32_is_torch_s(name: str, layout: str) -> None:
    ours, theirs = PAIRS[name]
    assert max(math.prod(shape) for shape in SHAPES) > TILE
    parameters = [nn.Parameter(laid(torch.randn(shape), layout)) for shape in SHAPES]
    twins = [nn.Parameter(parameter.detach().double()) for parameter in parameters]
    here, there = ours(parameters), theirs(twins)
    for _ in range(6):
        for parameter, twin in zip(parameters, twins, strict=True):
            twin.grad = torch.randn(twin.shape).double()
            parameter.grad = laid(twin.grad.float(), layout)
        here.step()
        there.step()
    for parameter, twin in zip(parameters, twins, strict=True):
        torch.testing.assert_close(parameter.double(), twin.detach(), rtol=1e-4, atol=1e-5)
        assert torch.equal(parameter.grad, twin.grad.float())  # left as it was


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_one_bit_count_as_their_values(name: str) -> None:
    """The first steps with bits, then values of several sizes, then bits again."""
    ours, theirs = PAIRS[name]
    for shape in ((3, 65), (6, 65, 3, 3), (2, 1, 3, 3)):
        parameter = nn.Parameter(laid(torch.randn(shape), "channels last"))
        twin = nn.Parameter(parameter.detach().double())
        here, there = ours([parameter]), theirs([twin])
        for step in range(8):
            x = torch.randn(shape)
            packed = PackedSigns(sign_bits(x), x.shape, x.dtype, 0.125)
            parameter.grad = packed if step not in (3, 4) else x
            twin.grad = parameter.grad.double() * 1
            here.step()
            there.step()
        torch.testing.assert_close(parameter.double(), twin.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1e-7, 1e-5, 1.0, 1e4, 6e4])
@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_16_bits_neither_underflow_nor_overflow(name: str, size: float) -> None:
    """Gradients that float16 holds: weights move as far as in float64, but for the rounding of 16 bits.

    Around 1e-7 it holds no more than 6e-8, 12e-8 and 18e-8: those gradients are constant.
    """
    parameter = nn.Parameter(torch.zeros(400, dtype=torch.float16))
    twin = nn.Parameter(torch.zeros(400, dtype=torch.float64))
    kinds = {"adam": (Adam, torch.optim.Adam, {}), "sgd": (SGD, torch.optim.SGD, {"momentum": 0.9})}
    ours, theirs, options = kinds[name]
    lr = 0.01 if name == "adam" else 0.01 / size
    here, there = (
        ours([parameter], lr=lr, **options),
        theirs([twin], lr=lr, **({"eps": 1e-8} if name == "adam" else options)),
    )
    direction = torch.randint(0, 2, (400,)) * 2.0 - 1
    for step in range(50):
        wave = direction * size * ((1.5 + math.sin(step)) / 2.5 if size > 1e-6 else 1.0)
        parameter.grad = wave.to(torch.float16)
        twin.grad = parameter.grad.double()
        here.step()
        there.step()
    assert parameter.isfinite().all()
    moved = (parameter.detach().double() / twin.detach()).abs()
    assert (moved - 1).abs().max() < 0.03
    assert torch.equal(parameter.detach().sign().double(), twin.detach().sign())


def test_adam_s_root_follows_gradients_that_shrink_and_grow() -> None:
    """In float16, over 3,000 steps, against float64: within a factor of 1.5."""
    parameter = nn.Parameter(torch.zeros(300, dtype=torch.float16))
    optimizer = Adam([parameter], lr=0.0)
    v = torch.zeros(300, dtype=torch.float64)
    for step in range(3000):
        size = 1.0 if step < 800 or step > 2200 else 0.05
        parameter.grad = (torch.randn(300) * size).to(torch.float16)
        v = 0.999 * v + 0.001 * parameter.grad.double() ** 2
        optimizer.step()
        if step % 200 == 199:
            ratio = optimizer.state[parameter]["root_v"].double() / (v / (1 - 0.999 ** (step + 1))).sqrt()
            assert 1 / 1.5 < float(ratio.median()) < 1.5, step


def test_bop_flips_where_the_mean_of_the_gradients_agrees_with_the_weight() -> None:
    for shape in ((3, 65), (6, 65, 3, 3)):
        start = torch.where(torch.randn(shape) >= 0, 1.0, -1.0)
        weight = nn.Parameter(PackedSigns(sign_bits(start), start.shape, torch.float16, for_good=True))
        optimizer = Bop([weight], rate=0.125, threshold=0.25)
        expected, m = start.double(), torch.zeros(shape).double()
        flips = 0
        for _ in range(12):
            x = torch.randn(shape) + 0.5
            packed = PackedSigns(sign_bits(x), x.shape, torch.float16, 0.015625)
            weight.grad = packed
            optimizer.step()
            m += 0.125 * (torch.where(x >= 0, 1.0, -1.0).double() - m)
            turns = m * expected > 0.25
            flips += int(turns.sum())
            expected = torch.where(turns, -expected, expected)
            clear = (m * expected).abs().sub(0.25).abs() > 1e-3
            assert torch.equal(weight.double()[clear] * 1, expected[clear])
            expected = weight.double() * 1  # where float16 rounds a mean onto the threshold
        assert flips > len(start) * 10
        assert weight.bits is not None


def test_bop_counts_every_gradient_that_was_added() -> None:
    """Two of one bit make -2, 0 or +2; clipped ones count less. Gradients that never were bits count as they are."""
    shape, start = torch.Size((2, 3)), torch.ones(2, 3)
    for change, unit in ((lambda g: g.add_(g.dense()), 2.0), (lambda g: g.mul_(0.5), 0.5), (lambda g: g.dense(), 0.25)):
        weight = nn.Parameter(PackedSigns(sign_bits(start), shape, torch.float16, for_good=True))
        optimizer = Bop([weight], rate=0.5, threshold=10.0)
        weight.grad = change(PackedSigns(sign_bits(start), shape, torch.float16, 0.25))
        optimizer.step()
        assert torch.equal(optimizer.state[weight]["m"].float(), torch.full(shape, unit / 2))


@pytest.mark.parametrize("kind", [Adam, SGD])
def test_weights_of_one_bit_need_bop(kind: type[Adam] | type[SGD]) -> None:
    weight = nn.Parameter(PackedSigns(sign_bits(torch.ones(2, 3)), torch.Size((2, 3)), torch.float16, for_good=True))
    with pytest.raises(ConfigurationError, match="use Bop, or latent_bits=16"):
        kind([nn.Parameter(torch.ones(2)), weight])
    weight.grad = torch.ones(2, 3, dtype=torch.float16)
    with pytest.raises(ConfigurationError, match=r"train them with everbit\.nn\.optimizers\.Bop"):
        torch.optim.SGD([weight], lr=0.1).step()


@pytest.mark.parametrize("kind", [Adam, SGD])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_steps_too_short_for_16_bits_are_right_on_average(
    kind: Callable[..., torch.optim.Optimizer], dtype: torch.dtype
) -> None:
    steps, lr, start = 200, 1e-5, 0.75  # half the distance of two numbers there is 2.4e-4, and 2e-3
    weight = nn.Parameter(torch.full((64, 256), start, dtype=dtype))
    still = nn.Parameter(torch.full((4,), start, dtype=dtype))
    optimizer = kind([weight, still], lr=lr)
    for _ in range(steps):
        weight.grad, still.grad = torch.ones_like(weight), torch.zeros_like(still)
        optimizer.step()
    assert torch.equal(still, torch.full_like(still, start))
    travelled = start - weight.float()
    spread = (travelled.std() / weight.numel() ** 0.5).item()
    reached = steps * lr if kind is Adam else lr * sum((1 - 0.9 ** (step + 1)) / 0.1 for step in range(steps))
    assert travelled.mean().item() == pytest.approx(reached, abs=5 * spread)


@pytest.mark.parametrize("momentum", [-0.1, 1.0])
def test_a_senseless_momentum_is_named(momentum: float) -> None:
    with pytest.raises(ConfigurationError, match=f"momentum is {momentum}"):
        SGD([nn.Parameter(torch.ones(2))], momentum=momentum)


@pytest.mark.parametrize(("layout", "dtype"), [("contiguous", torch.float32), ("channels last", torch.float16)])
@pytest.mark.parametrize("kind", [Adam, SGD, Bop])
def test_a_loaded_state_goes_on_where_it_stopped(
    kind: Callable[..., torch.optim.Optimizer], layout: str, dtype: torch.dtype
) -> None:
    """Also on parameters that lie in memory otherwise than those it was saved with; there, 16 bits round otherwise."""
    start, gradients = torch.randn(4, 5, 3, 3), [torch.randn(4, 5, 3, 3).to(dtype) for _ in range(6)]
    whole = nn.Parameter(laid(start.to(dtype), "channels last"))
    optimizer = kind([whole])
    part, parts = whole, optimizer
    for step, gradient in enumerate(gradients):
        if step == 3:
            part = nn.Parameter(laid(whole.detach().clone(), layout))
            parts = kind([part])
            parts.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        whole.grad = gradient
        optimizer.step()
        if step >= 3:
            part.grad = gradient
            parts.step()
    assert torch.equal(part, whole)


def test_groups_closures_and_schedules() -> None:
    first, second, third = (nn.Parameter(torch.ones(2)) for _ in range(3))
    optimizer = SGD([{"params": [first], "lr": 0.5}, {"params": [second]}, {"params": [third]}], lr=0.25, momentum=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = first.sum() + second.sum()
        loss.backward()
        return loss

    assert float(optimizer.step(closure).detach()) == 4
    schedule.step()
    optimizer.step(closure)
    assert torch.equal(first, torch.full((2,), 1 - 0.5 - 0.25))
    assert torch.equal(second, torch.full((2,), 1 - 0.25 - 0.125))
    assert torch.equal(third, torch.ones(2))
    assert third not in optimizer.state
