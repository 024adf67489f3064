"""Activations as rows of channels, and one bit of each value.

Bits of a tensor are uint8 [rows, 8 * words]: the channels of one place after another, lowest bit first, filled up with
0 to whole words of 64 bits, which is how the engine reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from everbit import _engine

TILE = 1 << 16
"""Most values that are computed with at once: their float32 copies stay in the second-level cache."""

LARGE = 1 << 20
"""Values from which on it pays to tidy up."""

SMALL_TILE = 1 << 12
"""Tiles of a small tensor are a sixteenth of it, but not below this: they shall not take more memory than it."""


LARGEST_FLOAT16 = torch.finfo(torch.float16).max


def as_rows(x: Tensor) -> Tensor:
    """[N, C, ...] as [rows, C], channels last: a view where the memory lies so, else a copy."""
    return x.movedim(1, -1).reshape(-1, x.shape[1])


def empty(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """An uninitialized tensor [N, C, ...], channels last: as_rows() of it is a view."""
    made = torch.empty_strided(tuple(shape), channels_last(shape), dtype=dtype, device=device)
    if made.device.type == "cpu" and made.numel() >= LARGE:
        _engine.request_large_pages(as_rows(made).view(torch.uint8).view(-1).numpy())
    return made


def channels_last(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of [N, C, ...] whose channels of one place lie side by side."""
    strides, reached = [0] * len(shape), 1
    for dimension in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[dimension], reached = reached, reached * shape[dimension]
    return tuple(strides)


def like(x: Tensor, shape: Sequence[int] | None = None) -> Tensor:
    """The same of x's type, in its shape or another."""
    return empty(x.shape if shape is None else shape, x.dtype, x.device)


def tile_values(values: int) -> int:
    """Values of one tile of a tensor that has so many."""
    return min(TILE, values, max(SMALL_TILE, values // 16))


def tiles(rows: int, channels: int) -> Iterator[slice]:
    """Ranges of rows, of tile_values() each."""
    step = max(1, tile_values(rows * channels) // channels)
    for first in range(0, rows, step):
        yield slice(first, min(rows, first + step))


def within(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Float32 values, changed in place, that the type holds: those beyond float16 become its largest, not infinite."""
    return values.clamp_(-LARGEST_FLOAT16, LARGEST_FLOAT16) if dtype == torch.float16 else values


def images_of(shape: Sequence[int]) -> list[slice]:
    """Ranges of the images of a tensor [N, C, ...], of about TILE values each."""
    step = max(1, TILE // max(1, math.prod(shape[1:])))
    return [slice(first, min(shape[0], first + step)) for first in range(0, shape[0], step)]


def row_bytes(channels: int) -> int:
    """Bytes of one row's bits."""
    return (channels + 63) // 64 * 8


def no_bits(rows: int, channels: int, device: torch.device) -> Tensor:
    """Uninitialized bits."""
    return torch.empty((rows, row_bytes(channels)), dtype=torch.uint8, device=device)


def pack(flags: Tensor) -> Tensor:
    """The bits of bool [rows, C]."""
    rows, channels = flags.shape
    missing = row_bytes(channels) * 8 - channels
    if missing:
        flags = torch.nn.functional.pad(flags, (0, missing))
    flat = flags.reshape(-1)
    packed = _packed_by_numpy(flat) if flags.device.type == "cpu" else _packed_by_torch(flat)
    return packed.view(rows, -1)


def unpack(bits: Tensor, channels: int) -> Tensor:
    """bool [rows, channels] of bits."""
    flat = bits.reshape(-1)
    flags = _unpacked_by_numpy(flat) if bits.device.type == "cpu" else _unpacked_by_torch(flat)
    return flags.view(torch.bool).view(bits.shape[0], -1)[:, :channels]


def _packed_by_numpy(flags: Tensor) -> Tensor:
    return torch.from_numpy(np.packbits(flags.numpy(), bitorder="little"))


def _packed_by_torch(flags: Tensor) -> Tensor:
    places = torch.arange(8, dtype=torch.uint8, device=flags.device)
    return (flags.view(-1, 8).to(torch.uint8) << places).sum(dim=1, dtype=torch.uint8)


def _unpacked_by_numpy(bits: Tensor) -> Tensor:
    return torch.from_numpy(np.unpackbits(bits.numpy(), bitorder="little"))


def _unpacked_by_torch(bits: Tensor) -> Tensor:
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    return (bits.unsqueeze(1) >> places) & 1


def signs(bits: Tensor, channels: int, dtype: torch.dtype) -> Tensor:
    """+1 and -1, [rows, channels], of bits."""
    return unpack(bits, channels).to(dtype).mul_(2).sub_(1)


def pack_rows(rows: Tensor, test: Callable[[Tensor], Tensor]) -> Tensor:
    """The bits of test(values), a tile at a time; rows [R, C]."""
    bits = no_bits(rows.shape[0], rows.shape[1], rows.device)
    for tile in tiles(*rows.shape):
        bits[tile] = pack(test(rows[tile]))
    return bits


def remember_signs(x: Tensor, bits: Tensor) -> None:
    """Notes the bits of sign(x) with x, for whoever needs them next."""
    if not x.is_inference():  # such tensors do not count their changes
        x.known_signs = (bits, x._version)  # type: ignore[attr-defined]


def remembered_signs(x: Tensor) -> Tensor | None:
    """The bits of sign(x) where they were noted and x has not changed since."""
    noted = getattr(x, "known_signs", None)
    return noted[0] if noted is not None and noted[1] == x._version else None


def tidy_up(x: Tensor) -> None:
    """After work on a large tensor: the C library gives back what its tiles left free."""
    if x.numel() >= LARGE:
        _engine.return_free_memory()
