from __future__ import annotations

import copy
import io

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from everbit.errors import ConfigurationError
from everbit.nn.low_memory_training.packed_signs import PackedSigns, sign_bits

SHAPE = torch.Size((3, 65, 2, 2))


def packed(magnitude: float = 0.5, for_good: bool = False) -> tuple[PackedSigns, Tensor]:
    """One, and its values."""
    x = torch.randn(SHAPE)
    values = torch.where(x >= 0, magnitude, -magnitude)
    return PackedSigns(sign_bits(x), SHAPE, torch.float32, magnitude, for_good), values


READERS = {
    "sum": lambda x: x.sum(),
    "matmul": lambda x: x.flatten(1) @ x.flatten(1).T,
    "slice": lambda x: x[1:, :, 0],
    "cast": lambda x: x.to(torch.bfloat16).float(),
    "clone": lambda x: x.clone() * 1,
    "view": lambda x: x.reshape(-1).cumsum(0),
    "detach": lambda x: x.detach() + 1,
    "other first": lambda x: torch.ones(SHAPE) - x,
    "stack": lambda x: torch.stack([x, x * 2]),
    "numpy": lambda x: torch.from_numpy(np.array(x.numpy())),
    "list": lambda x: torch.tensor(x.tolist()),
    "foreach": lambda x: torch._foreach_mul([x, x], 2.0)[1],
}


@pytest.mark.parametrize("name", READERS)
def test_it_reads_as_its_values(name: str) -> None:
    x, values = packed()
    assert torch.equal(READERS[name](x), READERS[name](values))
    assert x.bits is not None
    assert repr(x) == "PackedSigns([3, 65, 2, 2], torch.float32, magnitude=0.5)"


CHANGES = {
    "add_": lambda x: x.add_(torch.ones(SHAPE)),
    "iadd": lambda x: x.__iadd__(1.0),
    "mul_ by a tensor": lambda x: x.mul_(torch.tensor(0.25)),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.copy_(torch.arange(float(SHAPE.numel())).view(SHAPE)),
    "clamp_": lambda x: x.clamp_(max=0),
    "out": lambda x: torch.add(torch.ones(SHAPE), 1, out=x),
    "foreach": lambda x: (torch._foreach_mul_([x], 3.0), x)[1],
    "foreach zero": lambda x: (torch._foreach_zero_([x]), x)[1],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_in_place_leaves_values(name: str) -> None:
    (x, values), identity = packed(), CHANGES[name]
    assert identity(x) is x
    assert torch.equal(x.dense(), identity(values))
    assert x.bits is None
    x.add_(1)
    assert torch.equal(x.dense(), values.add_(1))


def test_copies_are_as_small_and_their_own() -> None:
    x, values = packed()
    for twin in (x.clone(), copy.deepcopy(x), copy.copy(x).clone()):
        assert isinstance(twin, PackedSigns)
        assert twin.bits is not None
        twin.bits.zero_()
        assert torch.equal(x.dense(), values)
    changed = x.clone()
    changed.add_(1)
    again = changed.clone()
    again.add_(1)
    assert torch.equal(changed.dense(), values + 1)
    assert torch.equal(again.dense(), values + 2)


def test_files_hold_bits() -> None:
    x, values = packed(for_good=True)
    file = io.BytesIO()
    torch.save({"x": nn.Parameter(x)}, file)
    assert len(file.getvalue()) < values.numel() * 4
    file.seek(0)
    loaded = torch.load(file, weights_only=False)["x"]
    assert isinstance(loaded, PackedSigns)
    assert loaded.for_good and loaded.requires_grad
    assert torch.equal(loaded.dense(), values)


def test_weights_for_good_take_signs_alone() -> None:
    x, _ = packed(1.0, for_good=True)
    weight, new = nn.Parameter(x), torch.randn(SHAPE)
    with torch.no_grad():
        assert weight.copy_(new) is weight
    expected = torch.where(new >= 0, 1.0, -1.0)
    assert weight.bits is not None
    assert torch.equal(weight.dense(), expected)
    weight.data.copy_(-new)
    assert torch.equal(weight.dense(), -expected)
    weight.data.copy_(torch.tensor(-0.1))
    assert torch.equal(weight.dense(), -torch.ones(SHAPE))
    for change in (lambda: weight.data.mul_(2), lambda: torch._foreach_add_([weight.data], 1.0)):
        with pytest.raises(ConfigurationError, match=r"train them with everbit\.nn\.optimizers\.Bop"):
            change()
    with pytest.raises(RuntimeError, match="size"):
        weight.data.copy_(torch.ones(2, 65, 2, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_module_casts_its_weights_as_bits(dtype: torch.dtype) -> None:
    x, values = packed(1.0, for_good=True)
    module = nn.ParameterList([nn.Parameter(x)]).to(dtype)
    (weight,) = module.parameters()
    assert isinstance(weight, PackedSigns)
    assert weight.dtype == dtype and weight.bits is not None and weight.for_good
    assert torch.equal(weight.dense(), values.to(dtype))


def test_sign_bits_of_bits_are_no_copy() -> None:
    x, values = packed()
    assert sign_bits(x) is x.bits
    assert torch.equal(sign_bits(values), sign_bits(x))
    x.neg_()
    assert torch.equal(sign_bits(x), sign_bits(-values))
