"""V24, Table 2: what one image costs that is learned from, QuickNet here against MobileNetV2 as people run it.

Ours: forward pass and learn step behind (7, 7, 256), q_f 8, q_bin 8, q_nonbin 16, batch 1. Theirs: the forward pass of
int8 MobileNetV2 on LiteRT, then the backward pass of its last block in float32 in PyTorch, with the update.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from everbit import engine
from everbit.benchmarks.lite_models import MOBILENET_V2, litert_forward, model_file
from everbit.benchmarks.quicknet import CUT, images, random_program
from everbit.benchmarks.timing import Times, clock_for, interleaved, milliseconds, ratio, several
from everbit.compile.image import program_image
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.zoo.registry import build

FIELD = "table2_speedup"
WIDTHS = "8,8,16,1"
CLASSES = 50  # CORe50's, as in the paper
ENDLESS = 2**16  # epochs
IMAGES = 16
"""In a turn, one after the other."""
FIRST_TRAINED = "block17"
"""Of MobileNetV2: its last inverted residual block, and all behind it."""


def _learn_step(threads: int) -> Callable[[], object]:
    """Learnable part forward, head, backward, update, for one image that is learned again and again."""
    program = random_program(CUT, WIDTHS, keep_classifier=False)
    options = Learner(program, Settings("naive", classes=CLASSES, batch_new=1), WIDTHS)._options(0, 1)
    learner = engine.NativeLearner(program_image(program), {**options, "threads": threads})
    learner.add(images(1), np.zeros(1, np.int32))
    learner.begin_training(ENDLESS)
    step: Callable[[], object] = learner.train_step
    return step


def frozen_forward(threads: int) -> Callable[[], object]:
    """The layers up to the cut on one image, its latent included."""
    program = random_program(CUT, WIDTHS, keep_classifier=False)
    options = {"q_bin": 8, "q_nonbin": 16, "classes": CLASSES, "cwr": False, "learning_rates": [], "threads": threads}
    network = engine.Network(program_image(program), 1, {**options, "as_in_use": True})
    image = images(1)
    return lambda: network.encode(image)


class _LastBlock:
    """The peer's last block in float32, trained on one map."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        network = build("mobilenet_v2")
        children = dict(network.named_children())
        order = list(children)
        self.block = nn.Sequential(*[children[name] for name in order[order.index(FIRST_TRAINED) :]])
        for module in self.block.modules():
            if isinstance(module, (nn.BatchNorm2d, nn.Dropout)):
                module.eval()
        first = next(module for module in self.block.modules() if isinstance(module, nn.Conv2d))
        self.input = torch.randn(1, first.in_channels, 7, 7)
        self.label = torch.zeros(1, dtype=torch.int64)
        self.optimizer = torch.optim.SGD(self.block.parameters(), lr=1e-3)
        self.loss: Tensor | None = None

    def forward(self) -> None:
        """With all that the backward pass needs."""
        self.optimizer.zero_grad()
        self.loss = functional.cross_entropy(self.block(self.input), self.label)

    def step(self) -> None:
        """Forward, backward, update."""
        self.forward()
        assert self.loss is not None
        self.loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def measure(repeats: int, threads: int) -> dict[str, object]:
    """Each part in turns; the figure is the ratio of the sums of their medians.

    The peer's backward pass is its whole step less its forward pass, which LiteRT's stands for. Beside it, the figure
    with both, since PyTorch cannot go backward without a forward pass in float32.
    """
    torch.set_num_threads(threads)
    real = (images(1) / 127.5 - 1).astype(np.float32)
    block = _LastBlock()
    contenders = {
        "everbit_forward": frozen_forward(threads),
        "everbit_learn_step": _learn_step(threads),
        "litert_forward": litert_forward(model_file(MOBILENET_V2), real, threads),
        "torch_block_forward": block.forward,
        "torch_block_step": block.step,
    }
    turns = {name: several(run, IMAGES) for name, run in contenders.items()}
    times = {name: seconds / IMAGES for name, seconds in interleaved(turns, repeats, clock_for(threads)).items()}
    sums: Times = {
        "everbit": times["everbit_forward"] + times["everbit_learn_step"],
        "peer": times["litert_forward"] + times["torch_block_step"] - times["torch_block_forward"],
        "peer_with_block_forward": times["litert_forward"] + times["torch_block_step"],
    }
    return {
        FIELD: ratio(sums, "peer", "everbit"),
        f"{FIELD}_with_block_forward": ratio(sums, "peer_with_block_forward", "everbit"),
        "table2": {"widths": WIDTHS, "milliseconds": milliseconds({**times, **sums})},
    }
