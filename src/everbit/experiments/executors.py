"""Where the jobs of a sweep are done: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from everbit.errors import ConfigurationError, WorkerError
from everbit.experiments.run_cache import RunCache
from everbit.experiments.sweep import Executor, Job

CONNECTION_SECONDS = 10
MOST_LOSSES = 3
"""Times that processes may die without a job done in between, before that is taken for more than bad luck."""


@dataclass(frozen=True)
class LocalProcesses:
    """So many processes of this machine, of one thread each; they share the cache's folder.

    What a process that dies was at goes on in another, from its last finished experience.
    """

    workers: int

    def run(self, jobs: Sequence[Job], cache: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        left, losses = dict(enumerate(jobs)), 0
        while left:
            try:
                for number, run in self._run_pool(left, cache):
                    del left[number]
                    losses = 0
                    yield number, run
            except BrokenProcessPool:
                losses += 1
                if losses > MOST_LOSSES:
                    raise WorkerError(
                        f"processes died {losses} times in a row: where memory was short, take fewer --workers; where "
                        "they could not begin, their own errors stand above, and a script that starts processes needs "
                        '`if __name__ == "__main__":` around what it does'
                    ) from None

    def _run_pool(self, jobs: dict[int, Job], cache: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        # Not forked: PyTorch's and the engine's threads would not survive it.
        context = multiprocessing.get_context("spawn")
        count = min(self.workers, len(jobs))
        pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin_process)
        try:
            futures: dict[Future[dict[str, Any]], int] = {}
            for number, job in jobs.items():
                futures[pool.submit(job.run, cache)] = number
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown()


def _begin_process() -> None:
    """One thread a process, and none that outlives its parent."""
    with suppress(ModuleNotFoundError):  # the base install runs the engine alone
        import torch

        torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster, every machine of which has everbit and the data sets, at the same place.

    address: of the cluster, or "local" for one on this machine. Ray runs again what a lost machine was at.
    """

    address: str

    def run(self, jobs: Sequence[Job], cache: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        import ray

        try:
            self._knock()
            ray.init(address=self.address, log_to_driver=False, configure_logging=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigurationError(f"no Ray cluster answers at {self.address!r} ({error}): check --ray") from error
        try:
            task = ray.remote(num_cpus=1, max_retries=MOST_LOSSES)(_run_far_away)
            running = {}
            for number, job in enumerate(jobs):
                run = RunCache(cache, job.identity()).result()
                if run is None:
                    running[task.remote(job)] = number
                else:
                    yield number, run
            while running:
                done, _ = ray.wait(list(running))
                for reference in done:
                    number = running.pop(reference)
                    identity, run = ray.get(reference)
                    RunCache(cache, identity).finish(run)
                    yield number, run
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        except ray.exceptions.RayError as error:
            raise WorkerError(f"the Ray cluster lost a run ({error}): the same command goes on from there") from error
        finally:
            ray.shutdown()

    def _knock(self) -> None:
        """Raises OSError where nothing answers: Ray itself would try for minutes."""
        place = urlsplit(self.address if "//" in self.address else f"//{self.address}")
        if place.port is not None:
            socket.create_connection((place.hostname, place.port), timeout=CONNECTION_SECONDS).close()


def _run_far_away(job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job's identity and its run, on another machine: its own folder keeps unfinished runs there."""
    folder = Path(tempfile.gettempdir()) / "everbit-runs"
    folder.mkdir(exist_ok=True)
    return job.identity(), job.run(folder)


def executor_of(workers: int | None, ray_address: str | None) -> Executor:
    """The executor that a command line asks for; workers: None for one a processor."""
    if ray_address is not None:
        return RayCluster(ray_address)
    return LocalProcesses(workers or os.cpu_count() or 1)
