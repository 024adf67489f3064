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
    padded = np.zeros((out_channels, taps, words_per_pixel(in_channels) * 64), np.uint8)
    padded[:, :, :in_channels] = bits
    return interleaved(np.packbits(padded, axis=-1, bitorder="little").view("<u8").reshape(out_channels, -1))


def interleaved(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words [C_out, taps * words] of one output channel after another, as pack_binary_weights() gives them."""
    blocks = (len(words) + 7) // 8
    padded = np.zeros((blocks * 8, words.shape[1]), np.uint64)
    padded[: len(words)] = words
    return np.ascontiguousarray(padded.reshape(blocks, 8, -1).transpose(0, 2, 1))


def unpack_binary_weights(
    words: NDArray[np.uint64], out_channels: int, taps: int, in_channels: int
) -> NDArray[np.bool_]:
    """The inverse of `pack_binary_weights`."""
    blocks = words.shape[0]
    rows = np.ascontiguousarray(words.astype("<u8").transpose(0, 2, 1)).reshape(blocks * 8, taps, -1)
    bits = np.unpackbits(rows.view(np.uint8), axis=-1, bitorder="little")
    return bits[:out_channels, :, :in_channels].astype(bool)
