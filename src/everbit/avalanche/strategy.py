"""A learner of everbit as a strategy of Avalanche, in the place of its `Naive` or `CWRStar`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.plugins.evaluation import default_evaluator
from avalanche.training.templates import SupervisedTemplate
from torch import Tensor, nn

from everbit.avalanche.pixels import pixels_of_batch
from everbit.data.images import fit_images
from everbit.errors import ConfigurationError, LabelError
from everbit.learner.protocol import ContinualLearner

UNSEEN_LOGIT = -1000.0
"""Below the logarithm of every float64: a class without an image so far is never predicted, and its loss is finite."""


class LearnerModule(nn.Module):
    """A learner as a module without parameters: images [N, C, H, W] to log-probabilities, float64 [N, classes].

    Column c is class number c. It is pickled and copied as the learner's file.
    """

    def __init__(self, learner: ContinualLearner, image_shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.learner, self.image_shape, self.classes = learner, image_shape, classes

    def forward(self, x: Tensor) -> Tensor:
        logits = torch.full((len(x), self.classes), UNSEEN_LOGIT, dtype=torch.float64)
        seen = [int(label) for label in self.learner.classes_]  # type: ignore[call-overload]
        if seen:
            probabilities = self.learner.predict_proba(self.pixels(x))
            least = np.finfo(np.float64).tiny
            logits[:, seen] = torch.from_numpy(np.log(np.maximum(probabilities, least)))
        return logits.to(x.device)

    def pixels(self, x: Tensor) -> Any:
        """uint8 [N, H, W, C] in the learner's shape, of images [N, C, H, W] of any size."""
        return fit_images(pixels_of_batch(x), self.image_shape)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        learner = state.pop("learner")
        with tempfile.TemporaryDirectory() as folder:
            learner.save(Path(folder) / "learner")
            state["saved"] = type(learner), (Path(folder) / "learner").read_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        kind, content = state.pop("saved")
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "learner").write_bytes(content)
            self.learner = kind.load(Path(folder) / "learner")


class EverbitStrategy(SupervisedTemplate):  # type: ignore[misc]
    """Trains a learner experience by experience; evaluation, metrics, loggers and checkpoints are Avalanche's.

    Example:
        strategy = EverbitStrategy(learner=everbit.Learner.open("birealnet18"), train_epochs=5, evaluator=evaluator)
        for experience in benchmark.train_stream:
            strategy.train(experience)
            strategy.eval(benchmark.test_stream)

    learner: any `ContinualLearner` that knows no class yet; the benchmark's class numbers are its labels, and its
    settings say how many there may be. train_epochs: passes of the learner over an experience. An experience is learned
    in one piece, so that no callback comes between `before_training_exp` and `after_training_exp`: metrics of training
    mini-batches and epochs stay silent, those of evaluation are complete. eval_every: -1, or 0 to evaluate at the end
    of each experience. Raises ConfigurationError, and while it runs ImageError, LabelError or CapacityError.
    """

    def __init__(
        self,
        *,
        learner: Any,
        train_epochs: int = 5,
        eval_mb_size: int = 256,
        plugins: Sequence[Any] | None = None,
        evaluator: EvaluationPlugin | Callable[[], EvaluationPlugin] | None = default_evaluator,
        eval_every: int = -1,
    ) -> None:
        if eval_every > 0:
            raise ConfigurationError(
                f"eval_every is {eval_every}: an experience is learned in one piece; choose 0 to evaluate after each"
            )
        if learner.classes_:
            raise ConfigurationError(
                f"the learner knows {len(learner.classes_)} classes: start one that knows none, the benchmark brings "
                "class numbers of its own"
            )
        super().__init__(
            model=LearnerModule(learner, learner.program.input_shape, learner.settings.classes),
            optimizer=None,
            train_mb_size=eval_mb_size,
            train_epochs=train_epochs,
            eval_mb_size=eval_mb_size,
            plugins=plugins,
            evaluator=evaluator,
            eval_every=eval_every,
        )

    @property
    def learner(self) -> Any:
        """The learner."""
        return self.model.learner

    def make_train_dataloader(self, **kwargs: Any) -> None:
        """In the order of the data set: the learner shuffles, by its own seed."""
        self.make_eval_dataloader(**kwargs)

    def check_model_and_optimizer(self, **kwargs: Any) -> None:
        """The learner updates itself."""

    def _train_exp(self, experience: Any, eval_streams: Any = None, **kwargs: Any) -> None:
        images, labels = [], []
        for batch in self.dataloader:
            self.mbatch = batch
            self._unpack_minibatch()
            images.append(self.model.pixels(self.mb_x))
            labels += self.mb_y.tolist()
        self.learner.partial_fit(np.concatenate(images), labels, epochs=self.train_epochs, progress=self._count)

    def _count(self, step: int, steps: int, accuracy: float) -> None:
        # Metrics of evaluation stand over the mini-batches trained so far.
        self.clock.after_training_iteration(self)

    def _unpack_minibatch(self) -> None:
        super()._unpack_minibatch()
        largest = int(self.mb_y.max())
        if largest >= self.model.classes:
            raise LabelError(
                f"the benchmark has a class number {largest}, the learner was made for {self.model.classes}: "
                f"start one with Settings(classes={largest + 1}) or more"
            )
