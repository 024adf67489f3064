"""The cut of a float network: what the replay memory stores of an activation, and what the learnable part sees."""

from __future__ import annotations

from math import prod
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from everbit.compile.program import Program


class LatentCode(Protocol):
    """Turns activations at the cut, float32 [N, C, H, W], to stored bytes, uint8 [N, B], and back."""

    stored_bytes: int

    def encode(self, x: Tensor) -> NDArray[np.uint8]:
        """The bytes to store."""

    def decode(self, stored: NDArray[np.uint8]) -> Tensor:
        """The activation that the learnable part sees, channels first in memory: fastest on the small maps there."""


class QuantizedLatent:
    """The program's own latent, 1 to 16 bits, stored as the engine stores it (docs/arithmetic.md, section 3).

    Codes follow from real activations, and stand for real values: nothing else is rounded.
    """

    def __init__(self, program: Program) -> None:
        layer = program.layers[program.latent_index]
        tensor = program.tensors[layer.output]
        self.shape = program.latent_shape
        self.bits = program.latent_bits
        self.stored_bytes = (prod(self.shape) * self.bits + 7) // 8
        self.scale, self.zero_point = tensor.scale, tensor.zero_point
        self.arrays = {name: torch.from_numpy(array.astype(np.float32)) for name, array in layer.arrays.items()}
        self.signs = tensor.bits == 1
        a = layer.attributes
        encode, decode = (a[f"{way}_A"] / 2 ** a[f"{way}_s"] for way in ("encode", "decode"))
        if tensor.bits == 32:  # B counts in steps of the tensor there
            self.to_code, self.from_code = [encode, -a["encode_B"] * encode], [decode, a["decode_B"]]
        else:
            self.to_code = [encode, a["encode_B"] / 2 ** a["encode_s"]]
            self.from_code = [decode, a["decode_B"] / 2 ** a["decode_s"]]

    def encode(self, x: Tensor) -> NDArray[np.uint8]:
        q = x.permute(0, 2, 3, 1) / self.scale + self.zero_point
        if self.signs:
            codes = (q > 0).int()
        elif self.bits == 1:
            codes = (q >= self.arrays["threshold"]).int()
        else:
            factor, offset = self.to_code
            codes = (q * factor + offset).round().clamp(0, 2**self.bits - 1).int()
        flat = codes.reshape(len(x), -1, 1).numpy()
        lanes = (flat >> np.arange(self.bits, dtype=np.int32)) & 1
        return np.packbits(lanes.astype(np.uint8).reshape(len(x), -1), axis=1, bitorder="little")

    def decode(self, stored: NDArray[np.uint8]) -> Tensor:
        values = prod(self.shape)
        lanes = np.unpackbits(stored, axis=1, count=values * self.bits, bitorder="little")
        weights = (1 << np.arange(self.bits)).astype(np.float32)
        flat = lanes.reshape(len(stored), values, self.bits).astype(np.float32) @ weights
        codes = torch.from_numpy(flat).reshape(len(stored), *self.shape)
        if self.signs:
            q = 2 * codes - 1
        elif self.bits == 1:
            q = torch.where(codes > 0, self.arrays["high"], self.arrays["low"])
        else:
            factor, offset = self.from_code
            q = codes * factor + offset
        return ((q - self.zero_point) * self.scale).permute(0, 3, 1, 2).contiguous()


class RealLatent:
    """The activation itself, stored as float32."""

    def __init__(self, program: Program) -> None:
        self.shape = program.latent_shape
        self.stored_bytes = 4 * prod(self.shape)

    def encode(self, x: Tensor) -> NDArray[np.uint8]:
        return np.ascontiguousarray(x.permute(0, 2, 3, 1).numpy()).reshape(len(x), -1).view(np.uint8)

    def decode(self, stored: NDArray[np.uint8]) -> Tensor:
        values = np.ascontiguousarray(stored).view(np.float32).reshape(len(stored), *self.shape)
        return torch.from_numpy(values).permute(0, 3, 1, 2).contiguous()


LATENTS: dict[str, type[QuantizedLatent] | type[RealLatent]] = {
    "engine": QuantizedLatent,
    "program": QuantizedLatent,
    "float": RealLatent,
}
"""engine: the engine's own, so that learning alone is in floating point. program: at the program's bits, of a frozen
part in float32. float: of that too, but not quantized, the latent replay of R21's and V24's float baselines."""
