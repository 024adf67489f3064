"""The learn step on two threads against one."""

from __future__ import annotations

import os

from everbit.benchmarks.birealnet18 import random_program
from everbit.benchmarks.measurements import NotMeasuredError
from everbit.benchmarks.timing import MORE_THREADS, compared, interleaved, several
from everbit.benchmarks.training_steps import BATCHES, start_learner, training_step


def measure(repeats: int, threads: int) -> dict[str, object]:
    """Speedup of an epoch's steps at 16 bits, whatever `threads` says.

    Raises NotMeasuredError where there is one processor only.
    """
    if (os.cpu_count() or 1) < 2:
        raise NotMeasuredError("this machine has one processor")
    program = random_program()
    steps = {f"threads_{count}": training_step(start_learner(program, threads=count)) for count in (1, 2)}
    epochs = {name: several(step, BATCHES) for name, step in steps.items()}
    times = interleaved(epochs, repeats, MORE_THREADS)
    result = compared(times, "threads_1", "threads_2")
    return {"threads_2_over_1": result["ratio"], "thread_scaling": result}
