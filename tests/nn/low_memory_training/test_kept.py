"""What low-memory training keeps between the passes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from everbit.nn import BinaryConv2d, Sign
from everbit.nn.low_memory_training import PROPOSED, STANDARD, Approximations, low_memory
from everbit.nn.low_memory_training.packed_signs import PackedSigns
from everbit.nn.low_memory_training.rows import row_bytes
from everbit.zoo.registry import build

IMAGES = 20


def kept_by(model: nn.Module, x: Tensor) -> list[Tensor]:
    """The tensors that a forward pass leaves for the backward pass, each once; sums of the loss are left out."""
    tensors: dict[int, Tensor] = {}

    def note(tensor: Tensor) -> Tensor:
        tensors[id(tensor.untyped_storage()) if not isinstance(tensor, PackedSigns) else id(tensor)] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = model(x)
    output.sum().backward()
    return list(tensors.values())


@pytest.mark.parametrize("approximations", [PROPOSED, Approximations(latent_bits=1)], ids=["latents", "bits"])
def test_binarynet_keeps_bits_its_image_and_a_number_a_channel(approximations: Approximations) -> None:
    model = low_memory(build("binarynet", width=0.125), approximations)
    x = torch.randn(IMAGES, 3, 32, 32)
    widest = max(module.weight.shape[0] for module in model.modules() if isinstance(module, BinaryConv2d))
    kept = kept_by(model, x)
    assert any(tensor is x or tensor.data_ptr() == x.data_ptr() for tensor in kept)
    for tensor in kept:
        if tensor.data_ptr() == x.data_ptr():
            continue
        assert not isinstance(tensor, PackedSigns)
        bits = tensor.dtype == torch.uint8
        assert bits or (tensor.dim() == 1 and tensor.numel() <= widest * 4), (tensor.dtype, tensor.shape)
    floats = sum(tensor.numel() * tensor.element_size() for tensor in kept if tensor.dtype != torch.uint8)
    assert floats <= x.numel() * 4 + 100_000


def test_the_bits_are_counted() -> None:
    """Sign, pool and batch norm of one block: the signs once, two masks, the taps of the pool, and no more."""
    model = low_memory(
        nn.Sequential(
            BinaryConv2d(3, 64, scale=False),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(64),
            Sign("ste_sign"),
            BinaryConv2d(64, 64),
        )
    )
    x = torch.randn(IMAGES, 3, 8, 8)
    kept = kept_by(model, x)
    places = IMAGES * 4 * 4
    bits = sorted(tensor.numel() for tensor in kept if tensor.dtype == torch.uint8)
    signs_of_x, mask, taps = 8 * places, 8 * places, [8 * places] * 2
    weights = [64 * 9 * row_bytes(3), 64 * 9 * row_bytes(64)]
    assert bits == sorted([signs_of_x, mask, *taps, *weights])


def test_the_standard_algorithm_keeps_values() -> None:
    """Else the comparison would be of nothing: the same measure finds the float activations of the batch norms."""
    model = low_memory(build("binarynet", width=0.125), STANDARD)
    kept = kept_by(model, torch.randn(IMAGES, 3, 32, 32))
    assert any(tensor.dtype == torch.float32 and tensor.numel() > IMAGES * 16 * 32 * 32 - 1 for tensor in kept)


def test_gradients_of_weights_are_bits_between_the_passes() -> None:
    model = low_memory(build("binarynet", width=0.125))
    model(torch.randn(IMAGES, 3, 32, 32)).sum().backward()
    for name, parameter in model.named_parameters():
        if name.endswith((".conv.weight", ".linear.weight")):
            gradient = parameter.grad
            assert isinstance(gradient, PackedSigns) and gradient.bits is not None and gradient.numbers is None
            rows = parameter.numel() // parameter.shape[1]
            assert gradient.bits.numel() == rows * row_bytes(parameter.shape[1])
