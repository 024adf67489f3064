"""The memory of one low-memory training step, planned: what lives when, through the layers and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import nn

from everbit.nn import Approximations
from everbit.nn.binary import BinaryConv2d, BinaryLinear, BinaryWeight, Sign
from everbit.nn.low_memory_training.binary import convolution_layer, dense_layer
from everbit.nn.low_memory_training.convert import DTYPES, LATENTS
from everbit.nn.low_memory_training.products import engine_products
from everbit.nn.low_memory_training.rows import row_bytes, tile_values
from everbit.zoo.memory.steps import Step
from everbit.zoo.memory.w23 import MOMENTA

FLOAT = 4
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
TILES, LEFT_OVER = 12, 1 << 20
"""float32 tiles of a layer, those included that the C library still holds, and bytes that small blocks leave free: an
allowance that fits what was measured; all else is counted."""

Key = tuple[str, int]
"""What is kept, and the step whose output it belongs to: kept by two, it is there once."""


@dataclass
class Ledger:
    """Bytes alive by purpose, and what they were when most were."""

    now: Counter[str] = field(default_factory=Counter)
    peak: Counter[str] = field(default_factory=Counter)

    def add(self, purpose: str, size: float) -> None:
        """Takes memory, or gives it back where size is below 0."""
        self.now[purpose] += round(size)
        if self.now.total() > self.peak.total():
            self.peak = self.now.copy()


def planned(steps: list[Step], batch: int, optimizer: str, approximations: Approximations) -> dict[str, int]:
    """Bytes by purpose at the moment when most are alive, of a step on `batch` images that is not the first one."""
    return dict(_Plan(steps, batch, optimizer, approximations).run().peak)


class _Plan:
    def __init__(self, steps: list[Step], batch: int, optimizer: str, approximations: Approximations) -> None:
        self.steps, self.batch, self.optimizer, self.approximations = steps, batch, optimizer, approximations
        self.width = DTYPES[approximations.dtype].itemsize
        self.ledger = Ledger()
        self.readers = [[n for n, step in enumerate(steps) if number in step.inputs] for number in range(len(steps))]
        self.kept: list[dict[Key, float]] = []
        for number in range(len(steps)):
            self.kept.append(self._kept(number))

    def run(self) -> Ledger:
        self._parameters()
        self._forward()
        self._backward()
        return self.ledger

    def _bits(self, step: Step) -> int:
        """Bytes of one bit a value of a step's output."""
        return self.batch * step.places * row_bytes(step.channels)

    def _values(self, number: int) -> int:
        """Bytes of a step's output; signs are bits, which are counted where they are kept."""
        if number == 0 or isinstance(self.steps[number].module, Sign):
            return 0
        return self.batch * self.steps[number].elements * self.width

    def _parameters(self) -> None:
        latent = 1 / 8 if self.approximations.latent_bits == 1 else LATENTS[self.approximations.latent_bits].itemsize
        remembered = LATENTS[self.approximations.latent_bits].itemsize
        # Of a one-bit gradient Adam's second moment is one number.
        one_bit = self.approximations.weight_gradient_bits == 1
        momenta = 1 if self.optimizer == "adam" and one_bit else MOMENTA[self.optimizer]
        for step in self.steps:
            if isinstance(step.module, BinaryWeight):
                self.ledger.add("weights", step.weights * latent)
                self.ledger.add("momenta", step.weights * remembered * momenta)
            elif step.module is not None:
                sizes = {name: p.numel() for name, p in step.module.named_parameters()}
                self.ledger.add("weights", sum(sizes.values()) * FLOAT)
                if isinstance(step.module, NORMS):
                    sizes.pop("weight", 0)  # gamma is a constant
                self.ledger.add("momenta", sum(sizes.values()) * FLOAT * (1 if self.optimizer == "sgd" else 2))
        self.ledger.add("images", self.batch * self.steps[0].elements * FLOAT)

    def _kept(self, number: int) -> dict[Key, float]:
        """What a step keeps for its backward pass."""
        step = self.steps[number]
        rule = _rule(step.module)
        return {} if rule is None else rule(self, number)

    def _forward(self) -> None:
        alive: Counter[Key] = Counter()
        for number, step in enumerate(self.steps):
            self.ledger.add("activations in work", self._values(number))
            for key, size in self.kept[number].items():
                if not alive[key]:
                    self.ledger.add(_purpose(key), size)
                alive[key] += 1
            self._scratch(number, backward=False)
            for source in step.inputs:
                if max(self.readers[source]) == number and source:
                    self.ledger.add("activations in work", -self._values(source))
        self.alive = alive

    def _backward(self) -> None:
        last, arrived = len(self.steps) - 1, set[int]()
        for number in range(last, 0, -1):
            step = self.steps[number]
            for source in step.inputs:
                if source:
                    self.ledger.add("gradients in work", self._gradient(source))
                    if source in arrived:  # the sum of what comes from several readers takes the place of both
                        self.ledger.add("gradients in work", -self._gradient(source))
                    arrived.add(source)
            self._scratch(number, backward=True)
            if step.weights:
                one_bit = step.binary and self.approximations.weight_gradient_bits == 1
                width = (
                    1 / 8 if one_bit else LATENTS[self.approximations.latent_bits].itemsize if step.binary else FLOAT
                )
                self.ledger.add("weight gradients", step.weights * width)
            if number != last:
                self.ledger.add("gradients in work", -self._gradient(number))
            for key, size in self.kept[number].items():
                self.alive[key] -= 1
                if not self.alive[key]:
                    self.ledger.add(_purpose(key), -size)

    def _gradient(self, number: int) -> int:
        """Bytes of the gradient of a step's output."""
        return self.batch * self.steps[number].elements * self.width

    def _scratch(self, number: int, backward: bool) -> None:
        """What a step takes while it runs."""
        step = self.steps[number]
        size = LEFT_OVER + TILES * FLOAT * tile_values(self.batch * step.elements)
        if step.binary and number and step.inputs != (0,):
            size += self._product_scratch(step, backward)
        self.ledger.add("scratch", size)
        self.ledger.add("scratch", -size)

    def _product_scratch(self, step: Step, backward: bool) -> int:
        module, source = step.module, self.steps[step.inputs[0]]
        if isinstance(module, BinaryConv2d):
            layer = convolution_layer(module, source.size)
        else:
            assert isinstance(module, BinaryLinear)
            layer = dense_layer(module)
        images = layer.at_once(self.batch)
        size = images * step.elements * 2
        if backward:
            pieces = 1 if images == self.batch else 2
            size += images * source.elements * FLOAT + step.weights * FLOAT * pieces
            size += engine_products(layer, self.batch).scratch_bytes
        return size


def _purpose(key: Key) -> str:
    return key[0]


def _rule(module: nn.Module | None) -> Callable[[_Plan, int], dict[Key, float]] | None:
    return next((rule for kinds, rule in RULES.items() if isinstance(module, kinds)), None)


def _sign(plan: _Plan, number: int) -> dict[Key, float]:
    source = plan.steps[number].inputs[0]
    normalized = isinstance(plan.steps[source].module, NORMS)
    owner = source if normalized else number  # a batch norm has packed the signs already
    return {
        ("activations kept, as bits", owner): plan._bits(plan.steps[number]),
        ("estimator masks", number): plan._bits(plan.steps[number]),
    }


def _batch_norm(plan: _Plan, number: int) -> dict[Key, float]:
    kept: dict[Key, float] = {("activations kept, as bits", number): plan._bits(plan.steps[number])}
    if plan.approximations.batch_norm == "l2":
        kept["activations kept, as values", number] = plan._values(number)
    return kept


def _product(plan: _Plan, number: int) -> dict[Key, float]:
    source = plan.steps[number].inputs[0]
    packed = plan.kept[source] if source else {}
    signs = {key: size for key, size in packed.items() if key[0] == "activations kept, as bits"}
    weights: dict[Key, float] = {("weights, as bits", number): plan.steps[number].weights / 8}
    return {**weights, **signs}


def _max_pool(plan: _Plan, number: int) -> dict[Key, float]:
    module = plan.steps[number].module
    assert isinstance(module, nn.MaxPool2d)
    side = module.kernel_size if isinstance(module.kernel_size, int) else module.kernel_size[0]
    return {("pool masks", number): (side**2 - 1).bit_length() * plan._bits(plan.steps[number])}


def _relu(plan: _Plan, number: int) -> dict[Key, float]:
    return {("estimator masks", number): plan._bits(plan.steps[number])}


def _real(plan: _Plan, number: int) -> dict[Key, float]:
    """An ordinary layer: its input as it is; a dense one also its weights at the activations' width."""
    step = plan.steps[number]
    source = step.inputs[0]
    kept: dict[Key, float] = {("activations kept, as values", source): plan._values(source)}
    if plan.width < FLOAT and isinstance(step.module, nn.Linear):
        kept["weights, as values", number] = step.weights * plan.width
    return kept


RULES: dict[tuple[type[nn.Module], ...], Callable[[_Plan, int], dict[Key, float]]] = {
    (Sign,): _sign,
    NORMS: _batch_norm,
    (BinaryWeight,): _product,
    (nn.MaxPool2d,): _max_pool,
    (nn.ReLU,): _relu,
    (nn.Conv2d, nn.Linear): _real,
}
"""What is kept for the backward pass, by kind of layer."""
