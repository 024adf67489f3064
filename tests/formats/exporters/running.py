"""Exported networks in ONNX Runtime, beside PyTorch."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

from everbit.formats.exporters.onnx import onnx_model


def run_onnx(model: onnx.ModelProto | bytes, images: np.ndarray) -> np.ndarray:
    """The output for images float32 [N, C, H, W]."""
    content = model if isinstance(model, bytes) else model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {"image": images})
    return output


def random_images(shape: tuple[int, int, int], count: int = 3, seed: int = 0) -> np.ndarray:
    """float32 [count, C, H, W] in [-1, 1]; shape: height, width, channels."""
    height, width, channels = shape
    values = np.random.default_rng(seed).integers(0, 256, (count, channels, height, width))
    return (values / 127.5 - 1).astype(np.float32)


@torch.no_grad()
def shake(network: nn.Module, seed: int = 0) -> nn.Module:
    """Gives batch norms, learned biases and slopes values as training leaves them, so that each shows in the output."""
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        own = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
        for name, values in own.items():
            if values.dim() == 1 and values.is_floating_point():
                spread = torch.rand(values.shape, generator=generator)
                values.copy_(spread * 1.5 + 0.5 if name in ("running_var", "weight") else spread - 0.5)
    return network.eval()


def assert_agrees(network: nn.Module, shape: tuple[int, int, int], tolerance: float = 1e-5) -> onnx.ModelProto:
    """What ONNX Runtime computes is what PyTorch does, up to the rounding of floats, for batches of several sizes."""
    model = onnx_model(network, shape)
    for count in (1, 3):
        images = random_images(shape, count)
        with torch.no_grad():
            expected = network(torch.from_numpy(images)).numpy()
        found = run_onnx(model, images)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(1.0, float(np.abs(expected).max())))
    return model
