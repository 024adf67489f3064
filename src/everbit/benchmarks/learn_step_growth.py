"""What a learn step costs when the learner knows more classes, and when it has learned for longer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from everbit import engine
from everbit.benchmarks.random_images import cyclic_labels, random_images
from everbit.benchmarks.timing import ONE_THREAD, Times, compared, interleaved, milliseconds, ratio
from everbit.benchmarks.training_steps import NEW, REPLAYED, learn_experience, start_learner, training_step
from everbit.compile.image import program_image
from everbit.compile.program import Program
from everbit.formats.model_file import load_program
from everbit.quantize.scale import scale_of
from everbit.zoo.packaged import packaged_model

MODEL = "birealnet18"
CLASSES = (10, 1000)
EXPERIENCES = (1, 200)
IMAGES = NEW  # of one of the 200 experiences
SMALL_CLASSES = 50


def measure(repeats: int, threads: int) -> dict[str, object]:
    """Two fields, each of ratios: the packaged model, half as wide as the paper's, at 16 bits, on one thread."""
    program = load_program(packaged_model(MODEL))
    by_classes, class_times = _cost_by_classes(program, repeats)
    by_experiences, experience_times = _cost_by_experiences(program, repeats)
    return {
        "learn_step_cost_vs_classes": by_classes,
        "learn_step_cost_vs_experiences": by_experiences,
        "learn_step_growth": {"milliseconds": {**milliseconds(class_times), **milliseconds(experience_times)}},
    }


def _cost_by_classes(program: Program, repeats: int) -> tuple[dict[str, float], Times]:
    """Ratios of 1000 classes to 10: step, the whole; head, the head alone; without_head, what is left between them."""
    steps = {count: training_step(start_learner(program, classes=count), count) for count in CLASSES}
    heads = {count: _head_step(program, count) for count in CLASSES}
    contenders = {f"step_{count}_classes": step for count, step in steps.items()}
    contenders |= {f"head_{count}_classes": head for count, head in heads.items()}
    times = interleaved(contenders, repeats, ONE_THREAD)
    few, many = CLASSES
    bodies = [
        float(np.median(times[f"step_{count}_classes"]) - np.median(times[f"head_{count}_classes"]))
        for count in CLASSES
    ]
    return {
        "step": ratio(times, f"step_{many}_classes", f"step_{few}_classes"),
        "head": ratio(times, f"head_{many}_classes", f"head_{few}_classes"),
        "head_share_at_1000": ratio(times, f"head_{many}_classes", f"step_{many}_classes"),
        "without_head": round(bodies[1] / bodies[0], 4),
    }, times


def _head_step(program: Program, classes: int) -> Callable[[], object]:
    """The head's part of a step on as many patterns: logits, softmax, gradient of the features, update."""
    options = {"q_bin": 16, "q_nonbin": 16, "classes": classes, "cwr": True, "learning_rates": [scale_of(0.1)]}
    batch = NEW + REPLAYED
    network = engine.Network(program_image(program), batch, options)
    network.begin_experience([])
    network.forward(network.encode(random_images(batch)))
    labels = cyclic_labels(batch, classes)
    return lambda: network.train_head(labels)


def _cost_by_experiences(program: Program, repeats: int) -> tuple[dict[str, float], Times]:
    """last_over_first: a step of a learner with 200 experiences behind it over one with a single experience."""
    steps = {}
    for count in EXPERIENCES:
        learner = start_learner(program, classes=SMALL_CLASSES)
        for index in range(count - 1):  # training_step adds the last one
            learn_experience(learner, IMAGES, SMALL_CLASSES, index * IMAGES)
        steps[f"step_after_{count}_experiences"] = training_step(learner, SMALL_CLASSES)
    times = interleaved(steps, repeats, ONE_THREAD)
    first, last = steps
    return {"last_over_first": compared(times, last, first)["ratio"]}, times
