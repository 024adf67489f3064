"""The file of a pretrained backbone: safetensors, binary weights as bits.

A binary convolution PATH is stored as `PATH.bits`, uint8, the bits [weight >= 0] of its weights [out, in, k, k] in C
order (np.packbits, little), and `PATH.alpha`, float16 [out], mean|weight|. Other weights are float16, batch norms
float32. The metadata has one entry, METADATA_KEY (one, because safetensors writes several in any order), JSON:
`version`, `has_head` and `description` (see Description).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from everbit.errors import ConfigurationError, FormatError
from everbit.nn.binary import BinaryWeight
from everbit.whole_file import replacing
from everbit.zoo.checkpoint import load_checkpoint
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.packaged import packaged_backbone
from everbit.zoo.registry import BUILDERS, build

METADATA_KEY = "everbit-backbone"
VERSION = 2
"""Grows whenever a file may hold what a reader of the version before does not know. 2: teachers, dense binary layers,
networks beyond the first three. Files of every version are read."""
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


@dataclass(frozen=True)
class Description:
    """What a backbone is and how it was trained: enough to build its module and to write its model card.

    `top1` is the validation accuracy, a fraction of 1, after the last whole epoch; `seconds` the time of training;
    the teacher's three are None where it had none (everbit.zoo.distillation). optimizer, low_memory: as in a recipe.
    """

    architecture: str
    width: float
    classes: int
    stem: str
    data: str
    epochs: int
    planned_epochs: int
    batch: int
    learning_rate: float
    precision: str
    top1: float
    seconds: float
    teacher: str | None = None
    teacher_share: float | None = None
    temperature: float | None = None
    optimizer: str = "adam"
    low_memory: bool = False


def _stored_tensors(model: nn.Module, drop_head: bool) -> dict[str, Tensor]:
    stored: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        if drop_head and path.partition(".")[0] == "head":
            continue
        if isinstance(module, BinaryWeight):
            bits = (module.weight.detach().numpy() >= 0).ravel()
            stored[f"{path}.bits"] = torch.from_numpy(np.packbits(bits, bitorder="little"))
            stored[f"{path}.alpha"] = module.alpha().to(torch.float16)
            continue
        dtype = torch.float32 if isinstance(module, BATCH_NORMS) else torch.float16
        own = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
        for name, tensor in own.items():
            if tensor.is_floating_point():  # all but the batch counter, which evaluation never reads
                stored[f"{path}.{name}"] = tensor.detach().to(dtype).contiguous()
    return stored


def save_weights(model: nn.Module, path: str | Path, description: Description, drop_head: bool = False) -> None:
    """Write the model's weights to `path`, whole or not at all; `drop_head` leaves the last linear layer out.

    Raises OutputError where the file cannot be written.
    """
    facts = {"version": VERSION, "has_head": not drop_head, "description": asdict(description)}
    with replacing(Path(path)) as partial:
        partial.write_bytes(save(_stored_tensors(model, drop_head), {METADATA_KEY: json.dumps(facts)}))


def _fill(model: nn.Module, stored: dict[str, Tensor]) -> None:
    """Copy stored tensors into the model; raises ValueError where one is missing, left over or of a wrong shape."""
    state = {name: tensor for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
    for path, module in model.named_modules():
        if isinstance(module, BinaryWeight):
            shape = module.weight.shape
            packed, alpha = stored.pop(f"{path}.bits"), stored.pop(f"{path}.alpha")
            if packed.dtype != torch.uint8 or packed.shape != ((shape.numel() + 7) // 8,):
                raise ValueError(f"{path}.bits does not hold {shape.numel()} bits")
            if alpha.shape != shape[:1] or not bool((alpha > 0).all()):
                raise ValueError(f"{path}.alpha does not hold {shape[0]} positive numbers")
            bits = np.unpackbits(packed.numpy(), count=shape.numel(), bitorder="little").reshape(shape)
            module.set_binary(torch.from_numpy(bits.astype(np.float32) - 0.5), alpha.float())
            del state[f"{path}.weight"]
    if state.keys() != stored.keys():
        raise ValueError(f"tensors missing or unknown: {', '.join(sorted(state.keys() ^ stored.keys()))}")
    for name, tensor in state.items():
        if tensor.shape != stored[name].shape:
            raise ValueError(f"{name} is {list(stored[name].shape)}, not {list(tensor.shape)}")
        tensor.copy_(stored[name])


def read_description(path: str | Path) -> tuple[Description, bool]:
    """The description in a backbone file and whether the file has a head. Raises FormatError."""
    if not Path(path).is_file():
        raise FormatError(f"there is no file {path}: give the path of a backbone")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        if METADATA_KEY not in metadata:
            raise ValueError(f"its metadata has no entry {METADATA_KEY!r}: it is a file of something else")
        facts = json.loads(metadata[METADATA_KEY])
        if facts["version"] > VERSION:
            raise ValueError(f"version {facts['version']} is newer than {VERSION}, the newest known: upgrade everbit")
        description = Description(**facts["description"])
        if description.architecture not in BUILDERS:
            raise ValueError(f"its network {description.architecture!r} is unknown: upgrade everbit")
        if description.stem not in NETWORKS[description.architecture].stems:
            raise ValueError(f"its stem {description.stem!r} is unknown: upgrade everbit")
        return description, facts["has_head"] is True
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"{path} cannot be read as a backbone ({error}): copy or export it again") from error


def is_backbone(path: str | Path) -> bool:
    """Whether a file names itself a backbone; False for one that is none or cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            return METADATA_KEY in (file.metadata() or {})
    except (OSError, SafetensorError):
        return False


def load_weights(path: str | Path) -> nn.Module:
    """The network in a backbone file, in evaluation mode, its binary weights exactly sign * alpha.

    Where the file has no head the module's `head` is nn.Identity, so that it returns features [N, F].
    Raises FormatError for a file that is missing, damaged, foreign or newer.
    """
    description, has_head = read_description(path)
    try:
        model = build(description.architecture, description.width, description.classes, description.stem)
        if not has_head:
            model.add_module("head", nn.Identity())
        with safe_open(path, framework="pt") as file, torch.no_grad():
            _fill(model, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"{path} cannot be read as a backbone ({error}): copy or export it again") from error
    return model.eval()


def export_backbone(checkpoint_path: str | Path, out_path: str | Path, drop_head: bool = True) -> Description:
    """Write the weights of a pretraining's checkpoint as a backbone file. Raises FormatError, OutputError.

    A checkpoint may be of an unfinished run: `epochs` then counts the whole epochs done, of `planned_epochs`.
    """
    state = load_checkpoint(Path(checkpoint_path))
    network, recipe, history = state["description"], state["recipe"], state["position"]["history"]
    more = [name for name in ("optimizer", "low_memory") if name in recipe]  # checkpoints older than these lack them
    more += ["teacher", "teacher_share", "temperature"] if recipe.get("teacher") else []
    if not history:
        raise FormatError(f"{checkpoint_path} has not finished its first epoch: let the pretraining go on")
    description = Description(
        **network,
        epochs=len(history),
        planned_epochs=recipe["epochs"],
        batch=recipe["batch"],
        learning_rate=recipe["learning_rate"],
        precision=recipe["precision"],
        top1=history[-1]["val_top1"],
        seconds=sum(entry["seconds"] for entry in history),
        **{name: recipe[name] for name in more},
    )
    model = build(description.architecture, description.width, description.classes, description.stem)
    model.load_state_dict(state["model"])
    save_weights(model, out_path, description, drop_head)
    return description


def packaged_weights(name: str) -> Path:
    """The packaged backbone file of that network, at half width. Raises ConfigurationError where there is none."""
    path = packaged_backbone(name)
    if path is None:
        raise ConfigurationError(
            f"the package holds no pretrained {name!r}: train one with "
            f"`everbit pretrain --model {name} --out FILE.safetensors` and give that file"
        )
    return path


def pretrained(name: str = "birealnet18") -> nn.Module:
    """The packaged backbone of that network at half width, without a head. Raises as packaged_weights, load_weights."""
    return load_weights(packaged_weights(name))
