from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from everbit.nn.low_memory_training.batch_norm import LowMemoryBatchNorm1d, LowMemoryBatchNorm2d
from everbit.nn.low_memory_training.rows import pack, remembered_signs

SHAPES = [(6, 5), (2, 65, 3), (4, 3, 5, 2), (1, 7, 2, 2), (40, 130, 9, 7)]


def norm_of(
    shape: tuple[int, ...], order: int, gamma: Tensor | None = None, beta: Tensor | None = None, **options: object
) -> nn.Module:
    kind = LowMemoryBatchNorm2d if len(shape) == 4 else LowMemoryBatchNorm1d
    module = kind(shape[1], **options)  # type: ignore[arg-type]
    module.order = order
    if gamma is not None and beta is not None:
        module.weight = nn.Parameter(gamma, requires_grad=False)
        module.bias = nn.Parameter(beta)
    return module


def by_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (like.dim() - 2))


def mean(x: Tensor) -> Tensor:
    return by_channel(x.movedim(1, -1).reshape(-1, x.shape[1]).mean(0), x)


def some(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """y, gradient, gamma of both signs, beta: float64."""
    y, gradient = torch.randn(shape).double() * 3 + 1, torch.randn(shape).double()
    return y, gradient, torch.randn(shape[1]).double(), torch.randn(shape[1]).double()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_order_2_is_batch_norm(shape: tuple[int, ...]) -> None:
    y, gradient, gamma, beta = some(shape)
    module = norm_of(shape, 2, gamma, beta)
    y.requires_grad_()
    expected = functional.batch_norm(y, None, None, gamma, module.bias, training=True, eps=module.eps)
    wanted = torch.autograd.grad(expected, (y, module.bias), gradient)
    found = module(y)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    for one, other in zip(torch.autograd.grad(found, (y, module.bias), gradient), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("eps", [0.0, 1e-5])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_order_1_is_the_paper_s_formula(shape: tuple[int, ...], eps: float) -> None:
    """W23: psi = mean|Y - mu|, X = (Y - mu) / psi + beta, dY = v - mean(v) - sgn(X) mean(v sgn(X) omega), v = dX / psi.

    A constant gamma scales X, and with it v; omega is then the mean size of X / gamma, whose signs are those of X.
    """
    y, gradient, gamma, beta = some(shape)
    module = norm_of(shape, 1, gamma, beta, eps=eps)
    moved = y - mean(y)
    psi = (mean(moved.abs()) ** 2 + eps).sqrt()
    unscaled = moved / psi + by_channel(beta / gamma, y)
    x = unscaled * by_channel(gamma, y)
    sign = torch.where(x >= 0, 1.0, -1.0)
    v = by_channel(gamma, y) * gradient / psi
    omega = mean(unscaled.abs())
    expected = v - mean(v) - sign * mean(v * sign * omega)
    y.requires_grad_()
    found = module(y)
    dy, dbeta = torch.autograd.grad(found, (y, module.bias), gradient)
    torch.testing.assert_close(found, x, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(dy, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(dbeta, gradient.movedim(1, -1).reshape(-1, shape[1]).sum(0), rtol=1e-9, atol=1e-9)
    assert torch.equal(module.running_var.double(), torch.lerp(torch.ones(1), (psi.flatten() ** 2 - eps).float(), 0.1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("order", [1, 2])
def test_narrow_types(order: int, dtype: torch.dtype) -> None:
    """Computed in float32, and rounded once: each result within one unit of the type of what float64 gives."""
    y, gradient, gamma, beta = some((8, 5, 6, 6))
    y, gradient = y.to(dtype), gradient.to(dtype)
    results = []
    for wide in (torch.float64, dtype):
        module = norm_of((8, 5, 6, 6), order, gamma, beta)
        at = y.to(wide).requires_grad_()
        x = module(at)
        x.backward(gradient.to(wide))
        results.append((x.detach().double(), at.grad.double()))
        assert x.dtype == at.grad.dtype == wide
    for exact, found in zip(*results, strict=True):
        torch.testing.assert_close(found, exact, rtol=4 * torch.finfo(dtype).eps, atol=8 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("shape", [(1, 5), (1, 3, 1, 1)], ids=str)
def test_one_value_a_channel_has_no_gradient(shape: tuple[int, ...], order: int) -> None:
    module = norm_of(shape, order)
    nn.init.normal_(module.bias)
    y = torch.randn(shape, requires_grad=True)
    x = module(y)
    x.backward(torch.randn(shape))
    assert torch.equal(x, by_channel(module.bias, x).expand_as(x))
    assert torch.equal(y.grad, torch.zeros(shape))
    assert module.running_var.isfinite().all()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("beta", [0.0, 50.0])
def test_a_channel_without_gamma_passes_nothing(order: int, beta: float) -> None:
    gamma = torch.tensor([0.0, 1.0])
    module = norm_of((4, 2), order, gamma, torch.full((2,), beta))
    y = torch.randn(4, 2, requires_grad=True)
    module(y).backward(torch.randn(4, 2))
    assert torch.equal(y.grad[:, 0], torch.zeros(4))
    assert y.grad.isfinite().all()


@pytest.mark.parametrize("order", [1, 2])
def test_equal_values_stay_finite(order: int) -> None:
    module = norm_of((4, 2), order)
    y = torch.full((4, 2), 3.0, requires_grad=True)
    x = module(y)
    x.backward(torch.randn(4, 2))
    assert torch.equal(x, torch.zeros(4, 2))
    assert y.grad.isfinite().all()


def test_what_it_tracks_is_what_it_evaluates_with() -> None:
    """With momentum 1 the batch's own statistics: evaluation then gives what training gave."""
    for order in (1, 2):
        module = norm_of((4, 3, 5, 5), order, momentum=1.0)
        y = torch.randn(4, 3, 5, 5) * 2 + 1
        x = module(y)
        torch.testing.assert_close(module.eval()(y), x, rtol=1e-5, atol=1e-5)
        assert int(module.num_batches_tracked) == 1


def test_an_average_over_all_batches() -> None:
    module = norm_of((8, 3), 2, momentum=None)
    batches = [torch.randn(8, 3) for _ in range(3)]
    for y in batches:
        module(y)
    torch.testing.assert_close(module.running_mean, torch.stack([y.mean(0) for y in batches]).mean(0))


@pytest.mark.parametrize("options", [{"affine": False}, {"track_running_stats": False}], ids=str)
def test_without_parameters_or_statistics(options: dict[str, bool]) -> None:
    y = torch.randn(6, 3, requires_grad=True)
    module = norm_of((6, 3), 2, **options)
    for mode in (True, False):
        expected = nn.BatchNorm1d(3, **options).train(mode)(y)
        torch.testing.assert_close(module.train(mode)(y), expected, rtol=1e-5, atol=1e-4 if mode else 1)


def test_the_next_sign_finds_the_bits() -> None:
    y = torch.randn(4, 65, 3, 3)
    x = norm_of((4, 65, 3, 3), 1)(y)
    bits = remembered_signs(x)
    assert bits is not None
    assert torch.equal(bits, pack(x.movedim(1, -1).reshape(-1, 65) >= 0))


def test_gradients_where_none_is_wanted() -> None:
    module = norm_of((4, 3), 1)
    module.bias.requires_grad_(False)
    y = torch.randn(4, 3, requires_grad=True)
    module(y).sum().backward()
    assert y.grad is not None and module.bias.grad is None
    module.bias.requires_grad_(True)
    module(y.detach()).sum().backward()
    assert module.bias.grad is not None
    with torch.no_grad():
        assert not module(y).requires_grad
