"""The planned memory is the engine's own: every byte of it has a purpose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from c_api.conftest import FIXTURES
from everbit import Learner, Settings, engine
from everbit._engine import planned_memory, red_zone
from everbit.compile.image import program_image
from everbit.compile.program import Program
from everbit.formats.model_file import load_program
from everbit.plan.memory import ALIGNMENT, PURPOSES, WORK, LearnerMemory, learner_memory
from everbit.quantize.widths import Widths
from everbit.zoo.packaged import packaged_model

PROGRAMS = sorted(path.stem for path in FIXTURES.glob("*.everbit"))
SETTINGS = Settings(classes=4, replay_per_class=5, experience_images=7, batch_new=3, batch_replayed=5)

pytestmark = pytest.mark.skipif(red_zone != 0, reason="the plan of a sanitized engine has red zones")


def widths_of(program: Program, q_bin: int = 8) -> Widths:
    return Widths(program.q_f, q_bin, max(16, program.q_f), program.latent_bits)


@pytest.fixture
def scalar() -> Iterator[None]:
    before = engine.active_isa()
    engine.select_isa("scalar")
    yield
    engine.select_isa(before)


@pytest.mark.parametrize("address_bytes", [4, 8])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_byte_has_a_purpose(name: str, address_bytes: int) -> None:
    program = load_program(FIXTURES / f"{name}.everbit")
    widths = widths_of(program)
    memory = learner_memory(program, SETTINGS, widths, address_bytes)
    options = Learner(program, SETTINGS, widths).engine_options | {"threads": 1}
    planned = planned_memory(program_image(program), options, address_bytes)
    assert tuple(memory.by_purpose) == PURPOSES
    assert memory.arena == planned["total"]
    assert memory.shared == planned["shared"]
    assert memory.by_purpose["replay memory"] == planned["replay"]
    assert min(memory.by_purpose.values()) >= 0
    assert memory.program == len(program_image(program))


@pytest.mark.usefixtures("scalar")
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_what_a_learner_takes(name: str) -> None:
    program = load_program(FIXTURES / f"{name}.everbit")
    widths = widths_of(program)
    memory = learner_memory(program, SETTINGS, widths, 8)
    taken = Learner(program, SETTINGS, widths).memory_use
    use = memory.by_purpose
    assert use["weights that learn"] + use["replay memory"] == taken["persistent"]
    assert 0 <= use["replay memory"] - taken["replay"] < 3 * ALIGNMENT
    assert use["latents"] == taken["experience"]
    handle = use["tables"] - taken["fixed"]
    assert 0 < handle < 2048
    assert memory.shared >= taken["shared"]  # a C learner also needs the space that planning takes
    assert memory.arena == taken["total"] + handle + memory.shared - taken["shared"]


def test_blocks_lie_in_the_shared_memory_and_never_in_each_other() -> None:
    memory = birealnet18("8,8,16,1")
    for block in memory.blocks:
        assert block.first <= block.last <= 2 * memory.layers
        assert block.offset + block.room <= memory.shared
    for index, one in enumerate(memory.blocks):
        for other in memory.blocks[:index]:
            at_once = one.first <= other.last and other.first <= one.last
            apart = one.offset + one.room <= other.offset or other.offset + other.room <= one.offset
            assert not at_once or apart


def test_the_fullest_moment_holds_what_is_said() -> None:
    memory = birealnet18("8,8,16,1")
    alive = [block for block in memory.blocks if block.first <= memory.moment <= block.last]
    for purpose in WORK:
        assert memory.by_purpose[purpose] == sum(block.room for block in alive if block.purpose == purpose)
    assert sum(memory.by_purpose[purpose] for purpose in (*WORK, "unused then")) == memory.shared


def test_narrower_weights_and_frozen_ones_take_less() -> None:
    learned = [birealnet18(widths).by_purpose["weights that learn"] for widths in ("8,1,16,1", "8,8,16,1", "8,16,16,1")]
    assert learned == sorted(learned)
    assert learned[0] < learned[1] < learned[2]
    assert birealnet18("8,1,16,1").program == birealnet18("8,16,16,1").program


def birealnet18(widths: str) -> LearnerMemory:
    return learner_memory(load_program(packaged_model("birealnet18")), SETTINGS, Widths.parse(widths), 4)
