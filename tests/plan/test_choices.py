"""What fits a device, and what the smallest useful learner takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from c_api.conftest import FIXTURES
from everbit import Settings
from everbit._engine import red_zone
from everbit.errors import CapacityError, CompileError, ConfigurationError
from everbit.plan.choices import STACK_BYTES, VARIABLE_BYTES, Request, choices, require_fitting
from everbit.plan.programs import EVERY_CUT, plannable
from everbit.plan.targets import TARGETS
from everbit.quantize.widths import Widths

KIB = 1024
TEN_CLASSES = Settings(classes=10, replay_per_class=20, batch_new=1, batch_replayed=3, experience_images=20)

pytestmark = pytest.mark.skipif(red_zone != 0, reason="the plan of a sanitized engine has red zones")


def request_for(target: str, settings: Settings = TEN_CLASSES, ram: int | None = None) -> Request:
    on = TARGETS[target]
    return Request(on, settings, ram or on.ram, on.flash, None, 1.0)


def test_ten_classes_learn_in_256_kib() -> None:
    """QuickNet at a quarter of its width and 64 pixels, which tests/boards runs: the bytes that docs/c_api.md says."""
    found = choices(plannable("quicknet", 0.25, None, 64), [], [], request_for("stm32h7", ram=256 * KIB))
    least = min((choice for choice in found if choice.fits), key=lambda choice: choice.ram)
    assert (least.candidate.cut, str(least.candidate.widths)) == ("transition3.blur", "8,1,16,1")
    assert least.memory.program == 173_376
    assert least.memory.arena == 146_304
    assert least.ram == 146_304 + STACK_BYTES + VARIABLE_BYTES <= 256 * KIB
    assert any(not choice.fits for choice in found)
    assert [choice.fits for choice in found] == sorted((choice.fits for choice in found), reverse=True)
    require_fitting(found, request_for("stm32h7", ram=256 * KIB))


def test_a_limit_to_the_byte() -> None:
    model = plannable(str(FIXTURES / "plain.everbit"))
    (choice, *_) = choices(model, [], [], request_for("stm32h7"))
    for ram, fits in ((choice.ram, True), (choice.ram - 1, False)):
        assert choices(model, [], [choice.candidate.widths], request_for("stm32h7", ram=ram))[0].fits == fits
    tight = replace(request_for("stm32h7"), flash=choice.flash - 1)
    assert not choices(model, [], [choice.candidate.widths], tight)[0].fits


def test_nothing_fits() -> None:
    model = plannable(str(FIXTURES / "plain.everbit"))
    request = request_for("stm32h7", ram=4096)
    with pytest.raises(
        CapacityError, match="nothing fits 4,096 bytes of RAM and 2,097,152 of flash: the smallest, cut"
    ):
        require_fitting(choices(model, [], [], request), request)


def test_a_program_from_a_file_lies_in_ram() -> None:
    model = plannable(str(FIXTURES / "plain.everbit"))
    (choice, *_) = choices(model, [], [], request_for("pi4"))
    assert choice.ram == choice.memory.arena + choice.memory.program + STACK_BYTES + VARIABLE_BYTES


def test_more_replay_or_larger_batches_take_more() -> None:
    model = plannable("birealnet18.everbit")
    widths = [Widths.parse("8,1,16,1")]
    base = choices(model, [], widths, request_for("stm32h7"))[0]
    for more in ({"replay_per_class": 40}, {"batch_replayed": 9}, {"classes": 20}, {"experience_images": 50}):
        settings = replace(TEN_CLASSES, **more)  # type: ignore[arg-type]
        assert choices(model, [], widths, request_for("stm32h7", settings))[0].ram > base.ram


def test_every_place_to_cut() -> None:
    model = plannable("vgg_small", 0.125)
    found = choices(model, [EVERY_CUT], [Widths.parse("8,1,16,1")], request_for("pi4"))
    cuts = [choice.candidate.cut for choice in found]
    assert cuts[0] == "input"
    assert {"block2", "block5", "block5.conv"} <= set(cuts)
    assert len(cuts) == len(set(cuts))
    # The later the cut, the less is left that learns.
    work = [sum(count for (phase, _), count in c.operations.work.items() if phase == "forward") for c in found]
    assert work == sorted(work, reverse=True)


def test_latents_that_a_cut_cannot_have_are_left_out() -> None:
    """Signs are one bit; the usual widths have latents of 8 bits, too."""
    model = plannable("vgg_small", 0.125)
    assert {c.candidate.widths.latent for c in choices(model, ["block6.sign"], [], request_for("pi4"))} == {1}
    with pytest.raises(CompileError, match="cannot store"):
        choices(model, ["block6.sign"], [Widths.parse("8,1,16,8")], request_for("pi4"))


def test_options_that_do_not_fit_the_model() -> None:
    plain = str(FIXTURES / "plain.everbit")
    for make, words in (
        (lambda: plannable("nothing"), "unknown model 'nothing'"),
        (lambda: plannable(plain, width=0.5), "leave these options out"),
        (lambda: plannable(plain, image_size=64), "leave --image-size out"),
        (lambda: choices(plannable(plain), ["input"], [], request_for("pi4")), "leave --cut out"),
        (lambda: choices(plannable(plain), [], [Widths.parse("8,1,16,8")], request_for("pi4")), "do not fit the model"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            make()
    with pytest.raises(CompileError, match=r"no module 'block99'.*its usual cuts are block5, block5.conv;"):
        choices(plannable("vgg_small", 0.125), ["block99"], [], request_for("pi4"))
