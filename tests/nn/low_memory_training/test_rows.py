from __future__ import annotations

import numpy as np
import pytest
import torch

from everbit.nn.low_memory_training import rows


@pytest.mark.parametrize("channels", [1, 3, 63, 64, 65, 130])
def test_bits_are_little_endian_words_filled_up_with_zeros(channels: int) -> None:
    flags = torch.rand(7, channels) < 0.5
    bits = rows.pack(flags)
    assert bits.dtype == torch.uint8
    assert bits.shape == (7, rows.row_bytes(channels)) == (7, -(-channels // 64) * 8)
    padded = np.zeros((7, bits.shape[1] * 8), np.uint8)
    padded[:, :channels] = flags.numpy()
    assert np.array_equal(bits.numpy(), np.packbits(padded, axis=1, bitorder="little"))
    assert torch.equal(rows.unpack(bits, channels), flags)
    assert torch.equal(rows.signs(bits, channels, torch.bfloat16), flags.bfloat16() * 2 - 1)


def test_numpy_and_torch_pack_alike() -> None:
    """The processor packs by NumPy, other devices by PyTorch."""
    flags = torch.rand(64 * 9) < 0.5
    bits = rows._packed_by_torch(flags)
    assert torch.equal(bits, rows._packed_by_numpy(flags))
    assert torch.equal(rows._unpacked_by_torch(bits).flatten(), rows._unpacked_by_numpy(bits))
    assert torch.equal(rows._unpacked_by_torch(bits).flatten().view(torch.bool), flags)


def test_rows_are_tiled_without_gaps() -> None:
    for count, channels in ((1, 1), (1, rows.TILE * 3), (5, rows.TILE // 2), (rows.TILE + 1, 1), (1000, 130)):
        reached = 0
        for tile in rows.tiles(count, channels):
            assert tile.start == reached < tile.stop
            assert tile.stop - tile.start == 1 or (tile.stop - tile.start) * channels <= rows.TILE
            reached = tile.stop
        assert reached == count


@pytest.mark.parametrize("shape", [(4, 70), (2, 70, 5), (2, 3, 4, 5)])
def test_as_rows_is_a_view_of_what_empty_makes(shape: tuple[int, ...]) -> None:
    made = rows.empty(shape, torch.float32, torch.device("cpu")).normal_()
    assert made.shape == shape
    assert rows.as_rows(made).data_ptr() == made.data_ptr()
    assert torch.equal(rows.as_rows(made), made.contiguous().movedim(1, -1).reshape(-1, shape[1]))
    assert torch.equal(rows.as_rows(made.contiguous()), rows.as_rows(made))


def test_signs_are_remembered_until_the_tensor_changes() -> None:
    x = torch.randn(3, 4)
    assert rows.remembered_signs(x) is None
    bits = rows.pack(x >= 0)
    rows.remember_signs(x, bits)
    assert rows.remembered_signs(x) is bits
    assert rows.remembered_signs(x + 0) is None
    x.neg_()
    assert rows.remembered_signs(x) is None


def test_values_beyond_float16_become_its_largest() -> None:
    values = torch.tensor([-1e9, -1.0, 65504.0, 65520.0, float("inf")])
    largest = 65504.0
    assert rows.within(values.clone(), torch.float16).tolist() == [-largest, -1.0, largest, largest, largest]
    assert torch.equal(rows.within(values.clone(), torch.bfloat16), values)
