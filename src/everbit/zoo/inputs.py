"""Images as every network of the zoo takes them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def to_input(images: np.ndarray) -> Tensor:
    """uint8 [N, H, W, 3] -> float32 [N, 3, H, W] in [-1, 1], images/127.5 - 1, in channels-last memory."""
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)
