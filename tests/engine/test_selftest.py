"""The selftest: its golden vectors are the reference's, are worth testing, and hold on every instruction set here."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

import make_selftest
from cross.run import digests
from cross.targets import Target
from engine.conftest import NATIVE
from everbit.compile.operations import OPERATIONS
from golden.draws import Digest, Draws
from golden.kernel_vectors import KERNEL_VECTORS
from golden.learning_runs import EPOCHS, EXPERIENCES, LearningRun, learning_runs
from golden.network_vectors import RATES, draw_images, network_vectors
from reference.learner import ReferenceLearner, SplitMix64


def test_the_committed_header_is_what_the_generator_writes() -> None:
    assert make_selftest.HEADER.read_text() == make_selftest.header(), "run tools/make_selftest.py"


@pytest.mark.parametrize("isa", NATIVE.isas)
def test_every_vector_holds(native: Target, isa: str) -> None:
    done = native.run(isa)
    if done.returncode == 2:
        pytest.skip(f"this processor has no {isa}: its kernels were not tested")
    assert done.returncode == 0, done.stdout
    runs = [f"{run.name} {what}" for run in learning_runs() for what in ("learned", "state")]
    names = [vector.name for vector in (*KERNEL_VECTORS, *network_vectors())] + runs
    assert list(digests(done.stdout)) == names
    assert done.stdout.splitlines()[-1] == f"{isa}: {len(names)} vectors, 0 differ, 0 skipped"


def test_without_a_name_every_instruction_set_runs(native: Target) -> None:
    done = subprocess.run([native.program], capture_output=True, text=True)
    assert done.returncode == 0
    tested = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("instruction set")]
    assert tested == [isa for isa in NATIVE.isas if native.run(isa).returncode == 0]


def test_an_unknown_instruction_set_is_refused(native: Target) -> None:
    assert native.run("avx3").returncode == 2


@pytest.mark.parametrize("place", [0, 60, -3, -1])
def test_a_wrong_digest_is_named(native: Target, place: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One bit of one golden digest is turned over in a copy of the program."""
    found = digests(native.run("scalar").stdout)
    alone = [name for name, digest in found.items() if list(found.values()).count(digest) == 1]
    name = alone[place]
    program = native.program.read_bytes()
    golden = int(found[name], 16).to_bytes(8, "little")
    assert program.count(golden) == 1
    copy = tmp_path_factory.mktemp("selftest") / "everbit_selftest"
    copy.write_bytes(program.replace(golden, bytes([golden[0] ^ 1]) + golden[1:]))
    copy.chmod(0o755)
    done = subprocess.run([copy, "scalar"], capture_output=True, text=True)
    assert done.returncode == 1
    differing = [line for line in done.stdout.splitlines() if "DIFFERS" in line]
    assert len(differing) == 1
    assert differing[0].split("  ")[1].strip() == name.removesuffix(" learned").removesuffix(" state")
    assert "1 differ" in done.stdout.splitlines()[-1]


def test_every_kind_of_layer_has_a_vector() -> None:
    programs = [vector.program for vector in network_vectors()] + [run.program for run in learning_runs()]
    assert {layer.kind for program in programs for layer in program.layers} == set(OPERATIONS)


@pytest.mark.parametrize("run", learning_runs(), ids=lambda run: run.name)
def test_everything_moves_in_a_learning_run(run: LearningRun) -> None:
    """Every parameter changes, the memory fills, and the logits of two images differ."""
    learner = ReferenceLearner(run.program, run.options, RATES, (run.q_bin, run.q_nonbin))
    states = learner.network.parameters
    learnable = range(run.program.latent_index + 1, len(run.program.layers))
    before = {(index, name): state.values for index in learnable for name, state in states[index].items()}
    draws = Draws(run.seed)
    for labels in EXPERIENCES:
        learner.learn(draw_images(draws, run.program, len(labels)), list(labels), EPOCHS)
    for (index, name), values in before.items():
        moved = states[index][name].values != values
        assert moved.mean() > 0.3, f"{run.program.layers[index].name} {name}"
    assert len(learner.memory.labels) >= run.options.replay_slots - 2
    assert sum(learner.memory.seen.values()) == sum(map(len, EXPERIENCES))
    first, second = learner.logits(draw_images(draws, run.program, 2))
    assert (first != second).all()


def test_the_draws_are_splitmix64() -> None:
    draws, reference = Draws(7), SplitMix64(7)
    assert draws.words(3).tolist() + draws.words(2).tolist() == [reference.next() for _ in range(5)]


def test_the_digest_sees_values_order_and_length() -> None:
    def digest(*values: int) -> int:
        whole, parts = Digest(), Digest()
        whole.add(values)
        for value in values:
            parts.add(value)
        assert whole.value == parts.value
        return whole.value

    sequences = [(), (0,), (0, 0), (1, 2), (2, 1), (-1, 2), (1, 2, 0), (2**63 - 1, -(2**63))]
    assert len({digest(*values) for values in sequences}) == len(sequences)
    unsigned, signed = Digest(), Digest()
    unsigned.add(np.array([2**64 - 1], np.uint64))
    signed.add(-1)
    assert unsigned.value == signed.value
