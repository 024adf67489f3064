"""Binary weights as packed bits, in the order that the engine multiplies them in (engine/kernels/xnor_gemm)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def words_per_pixel(channels: int) -> int:
    """64-bit words that hold the bits of one pixel."""
    return (channels + 63) // 64


def pack_binary_weights(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Weight bits [C_out, taps, C_in] (True = +1) -> words [ceil(C_out / 8), taps * words, 8].

    Eight output channels stand side by side, so that one 512-bit load serves eight dot products. Unused bits and
    channels are 0.
    """
    out_channels, taps, in_channels = bits.shape
    words, blocks = words_per_pixel(in_channels), (out_channels + 7) // 8
    padded = np.zeros((blocks * 8, taps, words * 64), np.uint8)
    padded[:out_channels, :, :in_channels] = bits
    packed = np.packbits(padded, axis=-1, bitorder="little").view("<u8")
    return np.ascontiguousarray(packed.reshape(blocks, 8, taps * words).transpose(0, 2, 1))


def unpack_binary_weights(
    words: NDArray[np.uint64], out_channels: int, taps: int, in_channels: int
) -> NDArray[np.bool_]:
    """The inverse of `pack_binary_weights`."""
    blocks = words.shape[0]
    rows = np.ascontiguousarray(words.astype("<u8").transpose(0, 2, 1)).reshape(blocks * 8, taps, -1)
    bits = np.unpackbits(rows.view(np.uint8), axis=-1, bitorder="little")
    return bits[:out_channels, :, :in_channels].astype(bool)
