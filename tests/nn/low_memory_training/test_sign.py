from __future__ import annotations

import pytest
import torch

from everbit.nn import Sign
from everbit.nn.low_memory_training.packed_signs import PackedSigns
from everbit.nn.low_memory_training.sign import LowMemorySign

POINTS = [-2.0, -1.25, -1.0, -0.6, -0.1, -0.0, 0.0, 0.1, 0.5, 1.0, 1.01, 3.0]
SHAPES = [(3, 4), (1, 65, 2), (2, 130, 3, 3)]


def sign_of(estimator: str, clip: float, keeps_slope: bool) -> LowMemorySign:
    module = LowMemorySign(estimator, clip)
    module.keeps_slope = keeps_slope
    return module


def at(shape: tuple[int, ...]) -> torch.Tensor:
    """The points, over and over."""
    count = torch.Size(shape).numel()
    return torch.tensor(POINTS).repeat(-(-count // len(POINTS)))[:count].view(shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("estimator", "clip", "keeps_slope"),
    [("ste_sign", 1.0, False), ("ste_sign", 1.25, False), ("approx_sign", 1.0, True)],
)
def test_values_and_gradients_are_those_of_sign(
    estimator: str, clip: float, keeps_slope: bool, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    x, gradient = at(shape).to(dtype).requires_grad_(), torch.randn(shape).to(dtype)
    expected = Sign(estimator, clip)(x)
    (wanted,) = torch.autograd.grad(expected, x, gradient)
    found = sign_of(estimator, clip, keeps_slope)(x)
    assert isinstance(found, PackedSigns)
    assert found.dtype == dtype
    assert torch.equal(found.dense(), expected)
    found.backward(gradient)
    assert torch.equal(x.grad, wanted)


def test_approx_sign_by_a_mask() -> None:
    x = at((3, 4)).requires_grad_()
    sign_of("approx_sign", 1.0, False)(x).backward(torch.full((3, 4), 0.5))
    assert torch.equal(x.grad, torch.where(x.abs() <= 1, 0.5, 0.0))


def test_any_layout() -> None:
    x = torch.randn(2, 5, 4, 4)
    for laid in (x, x.contiguous(memory_format=torch.channels_last), x.transpose(2, 3).contiguous().transpose(2, 3)):
        for slope in (False, True):
            at_x = laid.clone(memory_format=torch.preserve_format).requires_grad_()
            signs = sign_of("approx_sign", 1.0, slope)(at_x)
            assert torch.equal(signs.dense(), torch.where(x >= 0, 1.0, -1.0))
            signs.backward(x.transpose(2, 3).contiguous().transpose(2, 3))
            factor = (2 - 2 * x.abs()).clamp(min=0) if slope else (x.abs() <= 1).float()
            assert torch.equal(at_x.grad, factor * x)


def test_a_changed_tensor_has_new_signs() -> None:
    """Bits that a batch norm left behind are not those of what a layer made of its result in place."""
    from everbit.nn.low_memory_training.batch_norm import LowMemoryBatchNorm1d

    norm = LowMemoryBatchNorm1d(3)
    norm.order = 1
    for change in (lambda x: x.neg_(), lambda x: x.add_(0.3), torch.nn.Hardtanh(-0.1, 2.0, inplace=True)):
        x = change(norm(torch.randn(5, 3)))
        assert torch.equal(sign_of("ste_sign", 1.0, False)(x).dense(), torch.where(x >= 0, 1.0, -1.0))
