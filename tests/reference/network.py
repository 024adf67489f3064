"""A whole network in the reference arithmetic: forward, backward, the train step and the CWR* head.

Example:
    network = ReferenceNetwork(program, q_bin=8, q_nonbin=16, classes=10)
    codes = network.frozen_forward(images)                       # uint8 images [N, H, W, C] -> latent codes
    network.begin_experience([3, 7])
    network.train_step(codes, labels, active, rates)             # active: bool [classes]; rates: kind -> Scale
    network.consolidate({3: 20, 7: 20})
    network.logits(codes)                                        # int32 in units of 2^-16, from cw
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from everbit.compile.operations import OPERATIONS
from everbit.compile.program import Program
from reference.fixed_point import (
    Gradient,
    Integers,
    Scale,
    consolidation_factor,
    cross_entropy_gradient,
    draws_at,
    int64,
    meet,
    product_shift,
    product_sum,
    quantize,
    rdiv,
    rshift,
    sat,
    sats,
    scale,
)
from reference.layers import BACKWARD, decode_latent, encode_latent, forward
from reference.parameters import ParameterState, ParameterSum, layer_state
from reference.step import Step

HEAD = (-1, "head")  # where a layer and the name of its parameter are asked for


def draws_of(key: int, numbers: Mapping[tuple[int, str], int]) -> dict[tuple[int, str], int | None]:
    """The key of each parameter's rounding in a step with a given key."""
    return {name: int(draws_at(key, [number])[0]) for name, number in numbers.items()}


class ReferenceNetwork:
    """A program with the state that a learner changes.

    parameters[layer index][name]: ParameterState. tw, cw: head weights [classes, features], integers of q_nonbin bits.
    past: patterns seen of each class. bias: of each logit, constant. After a backward pass, gradients[tensor index]
    holds the quantized gradients of the learnable part's tensors, and sums[layer index, name] the sums of its
    parameters; logit_gradient and head_sum are those of the head.
    """

    def __init__(self, program: Program, q_bin: int, q_nonbin: int, classes: int = 10) -> None:
        self.program, self.q_bin, self.q_nonbin, self.classes = program, q_bin, q_nonbin, classes
        self.parameters: dict[int, dict[str, ParameterState]] = {
            index: layer_state(program, index, q_bin, q_nonbin) for index in range(len(program.layers))
        }
        self.cw: Integers = np.zeros((classes, program.features), np.int64)
        self.tw: Integers = np.zeros((classes, program.features), np.int64)
        self.past: Integers = np.zeros(classes, np.int64)
        self.bias: Integers = np.zeros(classes, np.int64)
        known = program.head.classifier
        if known is not None:
            rows = slice(len(known.labels))
            self.cw[rows] = sats(rshift(int64(known.weights), 32 - q_nonbin), q_nonbin)
            self.past[rows], self.bias[rows] = known.past, known.bias
        self.activations: dict[int, Integers] = {}
        self.gradients: dict[int, Gradient] = {}
        self.sums: dict[tuple[int, str], ParameterSum] = {}
        self.logit_gradient: Gradient | None = None
        self.head_sum: ParameterSum | None = None

    def step(self, index: int) -> Step:
        """Layer `index` with its tensors and parameters."""
        layer, tensors = self.program.layers[index], self.program.tensors
        sources = tuple(tensors[source] for source in layer.inputs)
        return Step(layer, sources, tensors[layer.output], self.parameters[index])

    @property
    def _learnable(self) -> range:
        return range(self.program.latent_index + 1, len(self.program.layers))

    def _run(self, indices: Iterable[int], tensors: dict[int, Integers]) -> None:
        for index in indices:
            layer = self.program.layers[index]
            tensors[layer.output] = forward(self.step(index), [tensors[source] for source in layer.inputs])

    def frozen_activations(self, images: NDArray[np.uint8]) -> dict[int, Integers]:
        """Every tensor of the frozen part by its index, for uint8 images [N, H, W, C]."""
        first, cut = self.program.layers[0], self.program.latent_index
        tensors = {first.output: forward(self.step(0), [int64(images)])}
        self._run(range(1, cut), tensors)
        return tensors

    def frozen_forward(self, images: NDArray[np.uint8]) -> Integers:
        """Latent codes [N, H, W, C] of uint8 images."""
        cut = self.program.latent_index
        tensors = self.frozen_activations(images)
        return encode_latent(self.step(cut), tensors[self.program.layers[cut].inputs[0]])

    def learnable_forward(self, codes: Integers) -> dict[int, Integers]:
        """Every tensor from the latent's output on, by its index; kept in `activations` for the backward pass."""
        cut = self.program.latent_index
        tensors = {self.program.layers[cut].output: decode_latent(self.step(cut), int64(codes))}
        self._run(self._learnable, tensors)
        self.activations = tensors
        return tensors

    def _raw_features(self) -> Integers:
        """q - Z of the last tensor, [N, features]."""
        index = self.program.layers[-1].output
        features = self.activations[index] - self.program.tensors[index].zero_point
        return features.reshape(len(features), -1)

    def head_logits(self, weights: Integers) -> Integers:
        """Logits of the last forward pass by given head weights."""
        bits = self.program.q_f
        by = Scale(*self.program.head.logit).times_power(product_shift(bits) - (self.q_nonbin - 1))
        return sat(scale(product_sum(self._raw_features().T, weights.T, bits), by) + self.bias, 32)

    def logits(self, codes: Integers, weights: Integers | None = None) -> Integers:
        """Logits [N, classes] in units of 2^-16, by the consolidated head unless other weights are given."""
        self.learnable_forward(codes)
        return self.head_logits(self.cw if weights is None else weights)

    def needs_gradient(self, tensor: int) -> bool:
        """Whether a trainable layer stands at or below a tensor of the learnable part."""
        makers = {self.program.layers[index].output: index for index in self._learnable}
        if tensor not in makers:
            return False
        trainable = any(state.trainable for state in self.parameters[makers[tensor]].values())
        return trainable or any(self.needs_gradient(source) for source in self.program.layers[makers[tensor]].inputs)

    def backward_from_logits(self, gradient: Gradient) -> None:
        """Backward pass of the head (weights tw) and the body for a gradient [N, classes]; fills gradients and sums."""
        head = self.program.head
        g, e = gradient
        self.head_sum = ParameterSum(
            product_sum(g, self._raw_features(), self.program.q_f),
            e + product_shift(self.program.q_f),
            Scale(*head.feature),
        )
        weights = ParameterState("head", self.tw, self.q_nonbin, head.range_exponent).p16
        self.backward_from_features(quantize(g @ weights, e + head.range_exponent - 15, self.q_nonbin))

    def backward_from_features(self, gradient: Gradient) -> None:
        """Backward pass of the body for the gradient of the last tensor, any shape of N * features values."""
        last, cut = self.program.layers[-1].output, self.program.layers[self.program.latent_index].output
        shape = self.activations[last].shape
        self.gradients = {last: Gradient(int64(gradient.values).reshape(shape), gradient.exponent)}
        self.sums = {}
        for index in reversed(self._learnable):
            layer = self.program.layers[index]
            if layer.output not in self.gradients:
                continue
            inputs = [self.activations[source] for source in layer.inputs]
            results, sums = BACKWARD[layer.kind](self.step(index), inputs, self.gradients[layer.output])
            self.sums.update({(index, name): total for name, total in sums.items()})
            for source, result in zip(layer.inputs, results, strict=True):
                if source != cut:
                    self._receive(source, quantize(result.values, result.exponent, self.q_nonbin))

    def _receive(self, tensor: int, gradient: Gradient) -> None:
        if tensor in self.gradients:
            gradient = meet(self.gradients[tensor], gradient, self.q_nonbin)
        self.gradients[tensor] = gradient

    def train_step(
        self,
        codes: Integers,
        labels: NDArray[np.integer],
        active: NDArray[np.bool_],
        learning_rates: Mapping[str, Scale],
        train_body: bool = True,
        rounding_key: int | None = None,
    ) -> None:
        """One step of SGD on a mini-batch of latent codes; updates tw and, with `train_body`, the learnable part.

        rounding_key: the step's, for stochastic rounding; None for rounding to nearest.
        """
        numbers = self._parameter_numbers()
        keys = dict.fromkeys(numbers) if rounding_key is None else draws_of(rounding_key, numbers)
        self.learnable_forward(codes)
        self.logit_gradient = cross_entropy_gradient(self.head_logits(self.tw), labels, active, self.q_nonbin)
        self.backward_from_logits(self.logit_gradient)
        assert self.head_sum is not None
        head = ParameterState("head", self.tw, self.q_nonbin, self.program.head.range_exponent)
        head.update(self.head_sum, learning_rates["head"], len(codes), keys[HEAD])
        self.tw = head.values
        if train_body:
            for (index, name), total in self.sums.items():
                state = self.parameters[index][name]
                state.update(total, learning_rates[state.kind], len(codes), keys[index, name])

    def _parameter_numbers(self) -> dict[tuple[int, str], int]:
        """Number of each of the program's parameters by layer and name; the head's is the last."""
        names = [
            (index, name)
            for index, layer in enumerate(self.program.layers)
            for name, _ in OPERATIONS[layer.kind].parameters
            if name in layer.parameters
        ]
        return {name: number for number, name in enumerate([*names, HEAD])}

    def begin_experience(self, classes: Iterable[int]) -> None:
        """CWR*: the rows of the experience's classes start from cw, all others from 0."""
        rows = list(classes)
        self.tw = np.zeros_like(self.cw)
        self.tw[rows] = self.cw[rows]

    def consolidate(self, counts: Mapping[int, int]) -> None:
        """CWR* after an experience; counts: patterns of each class in it (those with 0 are left alone)."""
        present = {j: count for j, count in counts.items() if count > 0}
        total = int(self.tw[list(present)].sum())
        mean = int(rdiv(total, len(present) * self.program.features))
        for j, current in present.items():
            alpha = consolidation_factor(int(self.past[j]), current)
            base = self.tw[j] - mean
            difference = sat(self.cw[j] - base, 32)
            self.cw[j] = sats(base + rshift(difference * alpha, 31), self.q_nonbin)
            self.past[j] += current

    def pack_codes(self, codes: Integers) -> NDArray[np.uint8]:
        """Codes [N, H, W, C] as the replay memory stores them, [N, ceil(H * W * C * L / 8)]."""
        bits = self.program.latent_bits
        flat = int64(codes).reshape(len(codes), -1, 1)
        lanes = ((flat >> np.arange(bits)) & 1).astype(np.uint8).reshape(len(codes), -1)
        return np.packbits(lanes, axis=1, bitorder="little")

    def unpack_codes(self, stored: NDArray[np.uint8]) -> Integers:
        """The inverse of `pack_codes`."""
        bits, shape = self.program.latent_bits, self.program.latent_shape
        lanes = np.unpackbits(stored, axis=1, bitorder="little", count=int(np.prod(shape)) * bits)
        values = lanes.reshape(len(stored), -1, bits).astype(np.int64) @ (1 << np.arange(bits))
        return values.reshape(len(stored), *shape)
