"""A network of everbit's layers -> the same network, trained in little memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from everbit import _engine
from everbit.errors import ConfigurationError
from everbit.nn.binary import BinaryConv2d, BinaryLinear, BinaryWeight, Sign
from everbit.nn.low_memory_training.batch_norm import LowMemoryBatchNorm1d, LowMemoryBatchNorm2d
from everbit.nn.low_memory_training.binary import LowMemoryBinaryConv2d, LowMemoryBinaryLinear
from everbit.nn.low_memory_training.packed_signs import PackedSigns, sign_bits
from everbit.nn.low_memory_training.real import LowMemoryConv2d, LowMemoryLinear, LowMemoryPReLU
from everbit.nn.low_memory_training.rows import empty
from everbit.nn.low_memory_training.sign import LowMemorySign
from everbit.nn.low_memory_training.windows import LowMemoryAvgPool2d, LowMemoryMaxPool2d, LowMemoryReLU, usual_windows

BATCH_NORMS = {"l1": 1, "l2": 2}
"""Batch norms by name, and the power of |y - mean| whose mean they divide by."""


@dataclass(frozen=True)
class Approximations:
    """What low-memory training leaves out, each on its own (W23, section 3).

    dtype: of activations and their gradients, "bfloat16", "float16" or "float32". batch_norm: "l1" keeps one bit a
    value, "l2" the values. weight_gradient_bits: 1, or 32 for gradients as they are. latent_bits: of the binary layers'
    latent weights and what an optimizer remembers of them, 16 or 32; 1 for weights without a latent, which Bop trains.
    approx_sign: "mask" gives it the gradient of ste_sign, of which one bit a value is kept, "slope" its own, which
    keeps the values; ste_sign needs no more than a mask.
    """

    dtype: str = "bfloat16"
    batch_norm: str = "l1"
    weight_gradient_bits: int = 1
    latent_bits: int = 16
    approx_sign: str = "mask"

    def __post_init__(self) -> None:
        for name, allowed in ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise ConfigurationError(
                    f"{name} is {getattr(self, name)!r}: choose one of {', '.join(map(str, allowed))}"
                )


DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
LATENTS = {1: torch.float16, 16: torch.float16, 32: torch.float32}
ALLOWED: dict[str, tuple[Any, ...]] = {
    "dtype": tuple(DTYPES),
    "batch_norm": tuple(BATCH_NORMS),
    "weight_gradient_bits": (1, 32),
    "latent_bits": tuple(LATENTS),
    "approx_sign": ("mask", "slope"),
}
PROPOSED = Approximations()
STANDARD = Approximations("float32", "l2", 32, 32, "slope")
"""The algorithm of Courbariaux and Bengio, in the same code: nothing is left out but what products round (products.py).
"""

KINDS: dict[type[nn.Module], type[nn.Module]] = {
    Sign: LowMemorySign,
    BinaryConv2d: LowMemoryBinaryConv2d,
    BinaryLinear: LowMemoryBinaryLinear,
    nn.BatchNorm1d: LowMemoryBatchNorm1d,
    nn.BatchNorm2d: LowMemoryBatchNorm2d,
    nn.MaxPool2d: LowMemoryMaxPool2d,
    nn.AvgPool2d: LowMemoryAvgPool2d,
    nn.ReLU: LowMemoryReLU,
    nn.Conv2d: LowMemoryConv2d,
    nn.Linear: LowMemoryLinear,
    nn.PReLU: LowMemoryPReLU,
}
"""What each layer becomes; others stay."""


def low_memory(model: nn.Module, approximations: Approximations = PROPOSED) -> nn.Module:
    """Changes a network's layers in place, so that training keeps bits, and returns it.

    model: of everbit's binary layers and PyTorch's; its names stay, so that a state dict fits both before and after.
    Input float [N, C, H, W]; output float32. Train it with the optimizers of everbit.nn.optimizers, or with torch's.
    Make the optimizer afterwards: the weights of binary layers become other tensors, and gammas of batch norms are no
    longer trained. From then on this process gives memory back to the system as soon as it is freed, in blocks of 512
    KiB and more.
    Raises ConfigurationError for a network that was changed before, has no binary layer, or two that share a weight.
    """
    modules = list(model.named_modules())
    if any(isinstance(module, tuple(KINDS.values())) for _, module in modules):
        raise ConfigurationError("the network trains in low memory already: pass one that was not changed")
    weights = [id(module.weight) for _, module in modules if isinstance(module, BinaryWeight)]
    if len({*weights}) < len(weights):
        raise ConfigurationError(
            "two binary layers share one weight, of which each would train its own: give it to one"
        )
    if not weights:
        raise ConfigurationError(
            "the network has no binary layer: low-memory training is for BinaryConv2d and BinaryLinear"
        )
    for _, module in modules:
        kind = KINDS.get(type(module))
        if kind is not None and usual_windows(module):
            _change(module, kind, approximations)
    model.register_forward_hook(_to_float32)
    _engine.return_large_blocks()
    return model


def _change(module: nn.Module, kind: type[nn.Module], approximations: Approximations) -> None:
    module.__class__ = kind
    if isinstance(module, (LowMemoryBinaryConv2d, LowMemoryBinaryLinear, LowMemoryConv2d, LowMemoryLinear)):
        module.dtype = DTYPES[approximations.dtype]
    if isinstance(module, (LowMemoryBinaryConv2d, LowMemoryBinaryLinear)):
        module.one_bit = approximations.weight_gradient_bits == 1
        latent, trains = module.weight.detach(), module.weight.requires_grad
        module.weight = nn.Parameter(_stored(latent, approximations.latent_bits), requires_grad=trains)
    if isinstance(module, LowMemorySign):
        module.keeps_slope = approximations.approx_sign == "slope" and module.estimator == "approx_sign"
    if isinstance(module, (LowMemoryBatchNorm1d, LowMemoryBatchNorm2d)):
        module.order = BATCH_NORMS[approximations.batch_norm]
        if module.weight is not None:
            module.weight.requires_grad_(False)


def _stored(weight: Tensor, bits: int) -> Tensor:
    """A binary layer's weight as it is kept between steps: channels last, or signs alone."""
    if bits == 1:
        return PackedSigns(sign_bits(weight), weight.shape, LATENTS[bits], for_good=True)
    kept = empty(weight.shape, LATENTS[bits], weight.device)
    return kept.copy_(weight)


def _to_float32(module: nn.Module, inputs: Any, output: Any) -> Any:
    """What leaves the network, for a loss that sums exponentials."""
    half = isinstance(output, Tensor) and output.dtype in (torch.float16, torch.bfloat16)
    return output.to(torch.float32) if half else output
