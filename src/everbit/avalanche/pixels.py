"""Images as Avalanche's data sets hold them, brought to the pixels that a learner takes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from everbit.errors import ImageError


def pixels_of_batch(images: Tensor) -> NDArray[np.uint8]:
    """uint8 [N, H, W, C] of images [N, C, H, W]: uint8, or floats in 0..1 as torchvision's ToTensor makes them.

    Raises ImageError for anything else.
    """
    if images.ndim != 4:
        raise ImageError(f"images have shape {list(images.shape)}: give [N, C, H, W], as torchvision's ToTensor makes")
    images = images.detach().cpu()
    if images.is_floating_point():
        low, high = float(images.min()), float(images.max())
        if not 0 <= low <= high <= 1:
            raise ImageError(
                f"images run from {low:g} to {high:g}: leave Normalize out of the benchmark's transforms, so that they "
                "are in 0..1; the model brings its own"
            )
        images = (images * 255).round().to(torch.uint8)
    if images.dtype != torch.uint8:
        raise ImageError(f"images are {images.dtype}: give uint8 in 0..255, or floats in 0..1")
    return np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())


def pixels_of_image(image: object) -> NDArray[np.uint8]:
    """uint8 [H, W, C] of a tensor [C, H, W] as above, or of a PIL image. Raises ImageError for anything else."""
    if isinstance(image, Tensor):
        alone: NDArray[np.uint8] = pixels_of_batch(image[None])[0]
        return alone
    if isinstance(image, Image.Image):
        pixels = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"), np.uint8)
        return pixels[:, :, None] if pixels.ndim == 2 else pixels
    raise ImageError(f"an image is of type {type(image).__name__}: the benchmark must give tensors or PIL images")
