"""Vectors of whole networks: the reference's activations, gradients, parameters and head in one digest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from everbit.compile.image import program_image
from everbit.compile.operations import OPERATIONS
from everbit.compile.program import Program
from everbit.packed_weights import pack_binary_weights
from golden.draws import Digest, Draws
from golden.programs import LAYER_KINDS, layer_program
from reference.fixed_point import Integers, Scale
from reference.network import ReferenceNetwork

CLASSES = 4
LABELS = (0, 3, 1)  # those that the mini-batches draw from; class 2 is absent
RATES = {
    "head": Scale(2**30, -1),
    "binary": Scale(2**30, 6),
    "norm": Scale(1288490188, -3),
    "bias": Scale(2**30, -2),
    "weight": Scale(1717986918, -5),
}
WIDTHS = ((16, 16), (8, 16), (4, 8), (1, 16), (8, 32))


def draw_images(draws: Draws, program: Program, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """uint8 images [count, H, W, C], one draw a byte."""
    shape = (count, *program.input_shape)
    return draws.numbers(int(np.prod(shape)), 0, 255).astype(np.uint8).reshape(shape)


def add_parameters(digest: Digest, network: ReferenceNetwork) -> None:
    """The parameters behind the latent in the order of the program, each layer's weight bits after its own."""
    program = network.program
    for index in range(program.latent_index + 1, len(program.layers)):
        layer = program.layers[index]
        for name, _ in OPERATIONS[layer.kind].parameters:
            if name in layer.parameters and network.parameters[index][name].trainable:
                digest.add(network.parameters[index][name].values)
        if layer.kind == "binary_convolution":
            signs = network.parameters[index]["weight"].values >= 0
            digest.add(pack_binary_weights(signs.reshape(signs.shape[0], -1, signs.shape[3])))


def _add_tensors(digest: Digest, network: ReferenceNetwork) -> None:
    program = network.program
    for index in range(program.latent_index, len(program.layers)):
        digest.add(network.activations[program.layers[index].output])
    for index in range(program.latent_index + 1, len(program.layers)):
        tensor = program.layers[index].output
        if tensor in network.gradients and network.needs_gradient(tensor):
            digest.add(network.gradients[tensor].exponent)
            digest.add(network.gradients[tensor].values)


@dataclass(frozen=True)
class NetworkVector:
    """A program at some widths, on mini-batches of `batch` images drawn from `seed`."""

    name: str
    program: Program
    q_bin: int
    q_nonbin: int
    batch: int
    seed: int

    def initializer(self, image: str) -> str:
        """The entry of the C++ table; image: the name of its array."""
        size = len(program_image(self.program))
        return (
            f'{{"{self.name}", {{{image}, {size}}}, {{{self.q_bin}, {self.q_nonbin}}}, {self.batch}, {self.seed}, '
            f"{self.golden():#018x}}},"
        )

    def golden(self) -> int:
        draws, digest = Draws(self.seed), Digest()
        network = ReferenceNetwork(self.program, self.q_bin, self.q_nonbin, CLASSES)
        codes = network.frozen_forward(draw_images(draws, self.program, self.batch))
        digest.add(network.pack_codes(codes))
        network.begin_experience(LABELS)
        counts = np.zeros(CLASSES, np.int64)
        for _ in range(2):
            labels: Integers = np.array(LABELS)[draws.numbers(self.batch, 0, len(LABELS) - 1)]
            counts += np.bincount(labels, minlength=CLASSES)
            network.train_step(codes, labels, np.ones(CLASSES, np.bool_), RATES)
            _add_tensors(digest, network)
            add_parameters(digest, network)
            digest.add(network.tw)
        network.consolidate(dict(enumerate(counts.tolist())))
        digest.add(network.cw)
        return digest.value


def network_vectors() -> list[NetworkVector]:
    """One for every kind of layer that has a test program; the widths take turns."""
    vectors = []
    for seed, kind in enumerate(LAYER_KINDS):
        q_bin, q_nonbin = WIDTHS[seed % len(WIDTHS)]
        q_f = 8 if q_nonbin == 8 or seed % 2 else 16
        name = f"{kind} {q_f},{q_bin},{q_nonbin}"
        vectors.append(NetworkVector(name, layer_program(kind, q_f), q_bin, q_nonbin, 3, seed))
    return vectors
