"""The integer reference against PyTorch float64 autograd: its formulas are the derivatives that they claim to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from torch import Tensor

torch = pytest.importorskip("torch")

from reference.fixed_point import Gradient, Integers, Scale, cross_entropy_gradient, quantize  # noqa: E402
from reference.float_program import FLOAT_FORWARD, FloatProgram, real_parameters  # noqa: E402
from reference.layers import BACKWARD  # noqa: E402
from reference.network import ReferenceNetwork  # noqa: E402
from reference.parameters import ParameterSum  # noqa: E402
from reference.program_builder import scale_constant  # noqa: E402
from reference.random_program import SINGLE_LAYERS, random_images, random_program, single_layer_program  # noqa: E402
from reference.rounding_bounds import (  # noqa: E402
    FORWARD_BOUNDS,
    INPUT_BOUNDS,
    NEAR,
    biased,
    output_steps,
    real_inputs,
    sum_bound,
)
from reference.step import Step  # noqa: E402

SLACK = 1 + 2.0**-20  # mantissas of Scales are off by 2^-31; float64 sums are not exact either
BITS = [(8, 4, 8), (8, 8, 16), (16, 16, 16), (16, 8, 32), (32, 32, 32)]  # q_f, q_bin, q_nonbin


def run_forward(network: ReferenceNetwork, rng: np.random.Generator) -> None:
    network.learnable_forward(network.frozen_forward(random_images(rng, network.program, 6)))


def feature_gradient(network: ReferenceNetwork, rng: np.random.Generator) -> Gradient:
    """A gradient of the features of about unit size."""
    shape = network.activations[network.program.layers[-1].output].shape
    return quantize((rng.normal(0, 2.0**40, shape)).astype(np.int64), -40, network.q_nonbin)


def real_sum(total: ParameterSum) -> Tensor:
    factor = 1.0
    if total.factor is not None:
        factor = float(total.factor.mantissa) / 2**31 * 2.0 ** int(total.factor.exponent)
    values: Tensor = torch.from_numpy(total.values).double() * 2.0**total.exponent * factor
    return values


def assert_forward(step: Step, inputs: list[Integers], output: Integers) -> None:
    parameters, reals = real_parameters(step), real_inputs(step, inputs)
    expected = FLOAT_FORWARD[step.layer.kind](step, parameters, *reals).detach()
    actual = torch.from_numpy(output).double()
    if step.layer.kind == "sign":
        sure = biased(parameters, reals[0], "bias").abs() >= NEAR
        assert torch.equal(actual[sure], expected[sure])
        return
    bound = FORWARD_BOUNDS[step.layer.kind](step, parameters, reals)
    steps = output_steps(step, expected)
    # A Scale is off by 2^-31 of its size, and so is what it multiplies: a unit or two of 32 bits.
    assert ((actual - steps).abs() <= bound * SLACK + steps.abs() * 2.0**-29 + 1e-9).all()


def assert_backward(step: Step, inputs: list[Integers], gradient: Gradient, q_b: int) -> None:
    """Gradients of the inputs within one step of q_b bits, parameter sums within their rounding."""
    parameters = real_parameters(step)
    reals = [x.requires_grad_() for x in real_inputs(step, inputs)]
    g = torch.from_numpy(gradient.values).double() * 2.0**gradient.exponent
    torch.autograd.backward(FLOAT_FORWARD[step.layer.kind](step, parameters, *reals), g)
    details = [x.detach() for x in reals]
    results, sums = BACKWARD[step.layer.kind](step, inputs, gradient)
    for x, result in zip(reals, results, strict=True):
        narrow = quantize(result.values, result.exponent, q_b)
        actual = torch.from_numpy(narrow.values).double() * 2.0**narrow.exponent
        rounding = 2.0**narrow.exponent if narrow.exponent > result.exponent else 0.0
        bound = INPUT_BOUNDS[step.layer.kind](step, parameters, details, g) + rounding
        assert x.grad is not None
        assert ((actual - x.grad).abs() <= bound * SLACK + 1e-9 * x.grad.abs().max()).all()
    assert set(sums) == {name for name, state in step.state.items() if state.trainable}
    for name, total in sums.items():
        expected = parameters[name].grad
        assert expected is not None
        bound = sum_bound(step, name, parameters, details, g)
        scale_of_terms = float(g.abs().sum()) * max(float(x.abs().max()) for x in details)
        assert ((real_sum(total) - expected).abs() <= bound * SLACK + 1e-9 * scale_of_terms).all(), name


def assert_every_layer(network: ReferenceNetwork, rng: np.random.Generator) -> None:
    run_forward(network, rng)
    network.backward_from_features(feature_gradient(network, rng))
    for index in range(network.program.latent_index + 1, len(network.program.layers)):
        layer, step = network.program.layers[index], network.step(index)
        inputs = [network.activations[source] for source in layer.inputs]
        assert_forward(step, inputs, network.activations[layer.output])
        assert_backward(step, inputs, network.gradients[layer.output], network.q_nonbin)


@pytest.mark.parametrize(("q_f", "q_bin", "q_nonbin"), BITS)
@pytest.mark.parametrize("kind", SINGLE_LAYERS)
def test_each_layer_follows_autograd(kind: str, q_f: int, q_bin: int, q_nonbin: int) -> None:
    rng = np.random.default_rng([list(SINGLE_LAYERS).index(kind), q_f, q_nonbin])
    program = single_layer_program(kind, rng, q_f=q_f)
    assert_every_layer(ReferenceNetwork(program, q_bin, q_nonbin), rng)


@pytest.mark.parametrize("seed", range(8))
def test_layers_of_networks_follow_autograd(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q_f, q_bin, q_nonbin = BITS[seed % len(BITS)]
    assert_every_layer(ReferenceNetwork(random_program(rng, q_f=q_f), q_bin, q_nonbin), rng)


def layers_above(network: ReferenceNetwork) -> dict[int, int]:
    """For each tensor, the most layers that its gradient has passed on its way down."""
    layers = network.program.layers
    passed = {layers[-1].output: 0}
    for layer in reversed(layers[network.program.latent_index + 1 :]):
        for source in layer.inputs:
            passed[source] = max(passed.get(source, 0), passed[layer.output] + 1)
    return passed


@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
@pytest.mark.parametrize("seed", range(4))
def test_whole_backward_pass_follows_autograd(seed: int, q_nonbin: int) -> None:
    """Within 2 * 2^-(min(q_b, 16) - 1) of a tensor's largest gradient for each layer passed.

    A layer rounds to one part in 2^(q_b - 1) of its largest gradient, and its constants to about 15 bits.
    """
    rng = np.random.default_rng(seed)
    network = ReferenceNetwork(random_program(rng, q_f=8), 8, q_nonbin)
    run_forward(network, rng)
    network.backward_from_features(feature_gradient(network, rng))
    floats, gradient = FloatProgram(network), network.gradients[network.program.layers[-1].output]
    floats.backward(gradient)
    passed, step = layers_above(network), 2.0 ** -(min(q_nonbin, 16) - 1)
    learnable = network.program.layers[network.program.latent_index + 1 :]
    assert network.gradients.keys() == {layer.output for layer in learnable}
    for tensor, narrow in network.gradients.items():
        expected = floats.tensors[tensor].grad
        if expected is None:
            assert not network.needs_gradient(tensor)
            continue
        actual = torch.from_numpy(narrow.values).double() * 2.0**narrow.exponent
        assert (actual - expected).abs().max() <= 2 * passed[tensor] * step * expected.abs().max()


@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
def test_cross_entropy_and_head_follow_autograd(q_nonbin: int) -> None:
    rng = np.random.default_rng(q_nonbin)
    program = random_program(rng, q_f=8, channels=37, pool_features=True)
    network = ReferenceNetwork(program, 8, q_nonbin, classes=7)
    limit = 2 ** (q_nonbin - 2)
    network.tw = rng.integers(-limit, limit, network.tw.shape)
    run_forward(network, rng)
    active = np.array([True, False, True, True, False, True, True])
    labels = rng.choice(np.flatnonzero(active), 6)
    logits = network.head_logits(network.tw)
    gradient = cross_entropy_gradient(logits, labels, active, q_nonbin)
    network.backward_from_logits(gradient)

    last = program.tensors[program.layers[-1].output]
    q = network.activations[program.layers[-1].output].reshape(6, -1)
    features = (torch.from_numpy(q - last.zero_point) * last.scale).double().requires_grad_()
    unit = 2.0 ** (program.head.range_exponent - (q_nonbin - 1))
    weight = (torch.from_numpy(network.tw) * unit).double().requires_grad_()
    scores = features @ weight.T
    scores.retain_grad()
    assert np.abs(logits - scores.detach().numpy() * 65536).max() <= 1 + np.abs(logits).max() * 2.0**-30
    torch.nn.functional.cross_entropy(
        scores.masked_fill(~torch.from_numpy(active), -torch.inf), torch.from_numpy(labels), reduction="sum"
    ).backward()

    def error(values: Integers, exponent: int, factor: float, expected: Tensor | None) -> float:
        assert expected is not None
        return float((torch.from_numpy(values).double() * 2.0**exponent * factor - expected).abs().max())

    # A logit is off by one of 2^-16, which moves a probability by half of that; softmax itself is off by 2e-6.
    assert scores.grad is not None and features.grad is not None
    assert not scores.grad[:, ~active].any() and not gradient.values[:, ~active].any()
    step = 2.0 ** -(q_nonbin - 1)
    bound = 1e-5 + step * float(scores.grad.abs().max())
    assert error(gradient.values, gradient.exponent, 1.0, scores.grad) <= bound
    assert network.head_sum is not None
    weight_bound = bound * len(q) * float(features.detach().abs().max())
    assert error(network.head_sum.values, network.head_sum.exponent, last.scale, weight.grad) <= weight_bound
    body = network.gradients[program.layers[-1].output]
    body_bound = bound * active.sum() * float(weight.detach().abs().max()) + step * float(features.grad.abs().max())
    # The weights enter with 16 bits, each off by half a step of them.
    body_bound += float(scores.grad.abs().sum(1).max()) * 2.0 ** (program.head.range_exponent - 16)
    assert error(body.values.reshape(6, -1), body.exponent, 1.0, features.grad) <= body_bound


@pytest.mark.parametrize(("q_bin", "q_nonbin"), [(4, 8), (8, 16), (16, 32), (1, 16)])
def test_update_is_sgd(q_bin: int, q_nonbin: int) -> None:
    """Every parameter moves by learning rate * mean gradient, off by at most one step of its bits."""
    rng = np.random.default_rng(q_nonbin)
    program = random_program(rng, q_f=8, channels=64, pool_features=True)
    network = ReferenceNetwork(program, q_bin, q_nonbin, classes=4)
    codes = network.frozen_forward(random_images(rng, program, 6))
    rates = {"head": 0.3, "binary": 2.0, "norm": 0.5, "bias": 0.1, "weight": 0.7}
    scales = {kind: Scale(*scale_constant(rate)) for kind, rate in rates.items()}
    labels = np.array([0, 1, 2, 0, 1, 2])
    active = np.array([True, True, True, False])
    for _ in range(3):
        network.train_step(codes, labels, active, scales)
    before = {(i, name): state.values.copy() for i, p in network.parameters.items() for name, state in p.items()}
    network.train_step(codes, labels, active, scales)
    assert not network.tw[3].any() and network.tw[:3].any()
    moved = 0
    for (index, name), old in before.items():
        state = network.parameters[index][name]
        if index < program.latent_index or not state.trainable:
            assert (state.values == old).all() and (index, name) not in network.sums
            continue
        unit = 2.0 ** (state.range_exponent - (state.bits - 1))
        change = real_sum(network.sums[index, name]).numpy() * rates[state.kind] / len(codes) / unit
        limit = 2 ** (state.bits - 1) - 1
        expected = np.clip(old - change, -limit, limit)
        assert (np.abs(state.values - expected) <= 1 + np.abs(change) * 2.0**-28).all(), (index, name)
        moved += int((state.values != old).sum())
    assert moved > 0


def test_body_stays_when_only_the_head_trains() -> None:
    rng = np.random.default_rng(5)
    program = random_program(rng, q_f=8, channels=37)
    network = ReferenceNetwork(program, 8, 16, classes=3)
    before = {(i, name): state.values.copy() for i, p in network.parameters.items() for name, state in p.items()}
    rates = {kind: Scale(2**30, 1) for kind in ("head", "binary", "norm", "bias", "weight")}
    codes = network.frozen_forward(random_images(rng, program, 4))
    network.train_step(codes, np.array([0, 1, 2, 0]), np.ones(3, bool), rates, train_body=False)
    assert network.tw.any()
    assert all((network.parameters[i][name].values == old).all() for (i, name), old in before.items())


@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
def test_consolidation_follows_the_float_recursion(q_nonbin: int) -> None:
    """docs/method.md 1.1, V24: cw = (p cw + tw - m) / (p + 1), p = sqrt(past / cur).

    A consolidation adds at most half a step for m, half for the last shift, and 2^-16 of what alpha multiplies.
    """
    rng = np.random.default_rng(q_nonbin)
    program = random_program(rng, q_f=8, channels=37)
    network = ReferenceNetwork(program, 8, q_nonbin, classes=6)
    expected, past, error = np.zeros(network.cw.shape), np.zeros(6), np.zeros(6)
    limit = 2 ** (q_nonbin - 3)
    for _ in range(6):
        counts = {j: int(rng.integers(0, 60)) for j in range(6)}
        present = [j for j, count in counts.items() if count]
        network.begin_experience(present)
        absent = [j for j in range(6) if j not in present]
        assert (network.tw[present] == network.cw[present]).all() and not network.tw[absent].any()
        network.tw = rng.integers(-limit, limit, network.tw.shape)
        mean = network.tw[present].mean()
        for j in present:
            p = np.sqrt(past[j] / counts[j])
            base = network.tw[j] - mean
            error[j] = error[j] * p / (p + 1) + 1 + np.abs(expected[j] - base).max() * 2.0**-16
            expected[j] = (p * expected[j] + base) / (p + 1)
            past[j] += counts[j]
        network.consolidate(counts)
        assert (np.abs(network.cw - expected).max(axis=1) <= error).all()
        assert (network.past == past).all()


@pytest.mark.parametrize("latent_bits", [1, 2, 4, 6, 7, 8, 16])
def test_codes_survive_packing(latent_bits: int) -> None:
    rng = np.random.default_rng(latent_bits)
    program = random_program(rng, latent_bits=latent_bits, channels=3, height=5, width=7)
    network = ReferenceNetwork(program, 8, 16)
    codes = network.frozen_forward(random_images(rng, program, 4))
    stored = network.pack_codes(codes)
    assert stored.dtype == np.uint8 and stored.shape == (4, -(-codes[0].size * latent_bits // 8))
    assert int(stored[0, 0]) & (2**latent_bits - 1) == int(codes[0].flat[0]) & 255
    assert (network.unpack_codes(stored) == codes).all()


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_programs_learn_without_leaving_their_ranges(seed: int, extreme: bool) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng, q_f=8, extreme=extreme)
    network = ReferenceNetwork(program, 4, 8, classes=3)
    images = random_images(rng, program, 5)
    frozen, codes = network.frozen_activations(images), network.frozen_forward(images)
    for index, values in (frozen | network.learnable_forward(codes)).items():
        bits = program.tensors[index].bits
        if bits == 1:
            assert (np.abs(values) == 1).all()
        else:
            assert values.min() >= -(2 ** (bits - 1)) and values.max() < 2 ** (bits - 1)
    rates = {kind: Scale(2**31 - 1, 6) for kind in ("head", "binary", "norm", "bias", "weight")}
    for _ in range(3):
        network.train_step(codes, rng.integers(0, 3, 5), np.ones(3, bool), rates)
    for states in network.parameters.values():
        assert all(np.abs(s.values).max() < 2 ** max(1, s.bits - 1) for s in states.values() if s.values.size)
