"""A program as a float32 PyTorch network: what the integer network would be without integers."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from everbit.compile.operations import OPERATIONS, PARAMETER_KINDS
from everbit.compile.program import Program
from everbit.compile.program import Tensor as ProgramTensor
from everbit.learner.float_latent import LATENTS, LatentCode
from everbit.learner.float_layers import FLOAT_LAYERS
from everbit.learner.float_windows import BinaryConvolution
from everbit.learner.latent_encoder import latent_encoder

_IMAGES_AT_ONCE = 128


def saturated(value: Tensor, numbers: ProgramTensor) -> Tensor:
    """A frozen layer's value within what its integers can stand for: that is how a program has a ReLU there."""
    if numbers.bits in (1, 32):  # signs; and 32 bits, where a ReLU is a layer
        return value
    side = 2 ** (numbers.bits - 1)
    low, high = (numbers.scale * (end - numbers.zero_point) for end in (-side, side - 1))
    return value.clamp(low, high)


class FloatNetwork(nn.Module):
    """The frozen and the learnable part of a program up to the features of the head.

    latent: a key of LATENTS; with the engine's latents the frozen part is the engine's too. Parameters of the learnable
    part take gradients, all others are constants.
    """

    def __init__(self, program: Program, latent: str) -> None:
        super().__init__()
        self.program = program
        self.latent: LatentCode = LATENTS[latent](program)
        self.encoder = latent_encoder(program) if latent == "engine" else None
        self.layers = nn.ModuleDict()
        for index, layer in enumerate(program.layers):
            if layer.kind == "latent" or (self.encoder is not None and index < program.latent_index):
                continue
            sources = tuple(program.tensors[source] for source in layer.inputs)
            module = FLOAT_LAYERS[layer.kind](layer, sources, program.tensors[layer.output])
            self.layers[str(index)] = module.requires_grad_(False) if index < program.latent_index else module

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Stored latents, uint8 [N, latent.stored_bytes], of images uint8 [N, H, W, C]."""
        if self.encoder is not None:
            return self.encoder.latents(images)
        stored = np.empty((len(images), self.latent.stored_bytes), np.uint8)
        with torch.no_grad():
            for first in range(0, len(images), _IMAGES_AT_ONCE):
                pixels = torch.from_numpy(images[first : first + _IMAGES_AT_ONCE]).permute(0, 3, 1, 2).float()
                stored[first : first + _IMAGES_AT_ONCE] = self.latent.encode(self._run_frozen(pixels))
        return stored

    def features(self, stored: NDArray[np.uint8]) -> Tensor:
        """Features of the head, float32 [N, F], of stored latents; carries gradients where they are enabled."""
        cut = self.program.latent_index
        tensors = {self.program.layers[cut].output: self.latent.decode(stored)}
        self._run(cut + 1, len(self.program.layers), tensors)
        features: Tensor = tensors[self.program.layers[-1].output].permute(0, 2, 3, 1).flatten(1)
        return features

    @property
    def bytes(self) -> int:
        """All parameters and constants, and what the engine takes for the frozen part."""
        encoder = 0 if self.encoder is None else self.encoder.memory_use["total"]
        return encoder + sum(p.numel() * p.element_size() for p in self.parameters())

    def learnable_by_kind(self) -> dict[str, list[nn.Parameter]]:
        """The learnable part's parameters by their kind of learning rate."""
        kinds: dict[str, list[nn.Parameter]] = {kind: [] for kind in PARAMETER_KINDS}
        for index, module in self.layers.items():
            of_name = dict(OPERATIONS[self.program.layers[int(index)].kind].parameters)
            for name, parameter in module.named_parameters():
                if parameter.requires_grad:
                    kinds[of_name[name.removeprefix("learned.")]].append(parameter)
        return kinds

    def learnable_state(self) -> dict[str, Tensor]:
        """The parameters that learning changes, by name; the tensors themselves."""
        return {name: p.data for name, p in self.named_parameters() if p.requires_grad}

    def clip_latent_weights(self) -> None:
        """Brings the latent weights of learnable binary layers back into [-1, 1]."""
        for module in self.layers.values():
            if isinstance(module, BinaryConvolution) and module.weight.requires_grad:
                module.clip_latent()

    def _run_frozen(self, pixels: Tensor) -> Tensor:
        layers = self.program.layers
        tensors = {layers[0].output: self.layers["0"](pixels)}
        for index in range(1, self.program.latent_index):
            self._run(index, index + 1, tensors)
            output = layers[index].output
            tensors[output] = saturated(tensors[output], self.program.tensors[output])
        at_cut: Tensor = tensors[layers[self.program.latent_index].inputs[0]]
        return at_cut

    def _run(self, start: int, stop: int, tensors: dict[int, Tensor]) -> None:
        """Runs layers start .. stop - 1 on the tensors by index and adds theirs."""
        for index in range(start, stop):
            layer = self.program.layers[index]
            tensors[layer.output] = self.layers[str(index)](*(tensors[source] for source in layer.inputs))
