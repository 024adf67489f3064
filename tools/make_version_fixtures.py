#!/usr/bin/env python3
"""Writes tests/formats/fixtures/VERSION: `python tools/make_version_fixtures.py` from the top of the repository.

Small files of every kind, as this version writes them, and what they compute. Run it once for each version, when it is
released (CONTRIBUTING.md); the folder of a version that is out never changes again.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "tests")]

import numpy as np  # noqa: E402
import torch  # noqa: E402

from everbit import Learner, Settings, __version__  # noqa: E402
from everbit.compile.operations import OPERATIONS  # noqa: E402
from everbit.compile.program import Program  # noqa: E402
from everbit.formats.model_file import save_program  # noqa: E402
from everbit.whole_file import replacing  # noqa: E402
from everbit.zoo.registry import build  # noqa: E402
from everbit.zoo.weights import Description, save_weights  # noqa: E402
from formats.version_facts import EXPECTED, FACTS, fixed_images  # noqa: E402
from reference.known_classes import with_known_classes  # noqa: E402
from reference.program_builder import ProgramBuilder  # noqa: E402
from reference.random_program import SINGLE_LAYERS, single_layer_program  # noqa: E402

FIXTURES = REPOSITORY / "tests" / "formats" / "fixtures"
LABELS = ("cat", 7)


def _residual(q_f: int, latent_bits: int) -> Program:
    """Real convolution, a frozen residual block, latent, two that learn, global average pool."""
    make = ProgramBuilder(np.random.default_rng(0), q_f)
    first = make.frozen_convolution(make.input(6, 5, 3), 5)
    frozen = make.affine(make.binary_convolution(make.sign(first, False), 5, False))
    latent = make.latent(make.add(frozen, first), latent_bits)
    plain = make.add(make.batch_norm(make.binary_convolution(make.sign(latent, True), 5, True)), latent)
    raw = make.binary_convolution(make.sign(plain, True, True), 5, True, 3, 1, 1, 1)
    make.global_average_pool(make.rprelu(make.add(make.batch_norm(raw), plain), True, True))
    return replace(make.finish(), metadata={"network": "residual", "cut": "latent", "width": 0.5})


def _models() -> dict[str, Program]:
    """Programs by the name of their file: without known classes and with them, and one for every kind of layer."""
    rng = np.random.default_rng(1)
    plain = _residual(8, 1)
    single = {
        f"layer_{kind}": single_layer_program(kind, np.random.default_rng(2), channels=3) for kind in SINGLE_LAYERS
    }
    return {"plain": plain, "classes": with_known_classes(plain, rng, LABELS), "wide": _residual(16, 16), **single}


def _save_backbone(name: str, folder: Path) -> None:
    """A network of the zoo, a few filters wide, its weights drawn by NumPy."""
    rng = np.random.default_rng(3)
    network = build(name, 1 / 32, 3).eval()
    with torch.no_grad():
        for key, values in network.state_dict().items():
            if values.is_floating_point():
                drawn = (
                    rng.uniform(0.5, 1.5, values.shape)
                    if key.endswith("running_var")
                    else rng.normal(0, 0.3, values.shape)
                )
                values.copy_(torch.from_numpy(drawn))
    facts = {"stem": "mnist" if name == "mlp" else "cifar", "data": "none", "precision": "float32", "top1": 0.0}
    counts = {"epochs": 0, "planned_epochs": 0, "batch": 1, "learning_rate": 0.0, "seconds": 0.0}
    save_weights(network, folder / f"{name}.safetensors", Description(name, 1 / 32, 3, **facts, **counts))


def main() -> None:
    """Writes the folder of this version. Raises ValueError where it would lack a kind of layer."""
    models = _models()
    missing = set(OPERATIONS) - {layer.kind for program in models.values() for layer in program.layers}
    if missing:
        raise ValueError(f"no model has the layers {', '.join(sorted(missing))}: add them to SINGLE_LAYERS")
    folder = FIXTURES / __version__
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in models.items():
        save_program(program, folder / f"{name}.everbit")
    for name, known in (("learned", "plain"), ("learned_more", "classes")):
        settings = Settings(classes=4, replay_per_class=2, batch_new=2, batch_replayed=2, seed=2)
        learner = Learner.open(folder / f"{known}.everbit", settings=settings)
        images = fixed_images(learner.image_shape)
        learner.partial_fit(images, ["dog", "cat", ("pair", 1), "dog"], epochs=2).save(folder / f"{name}.learner")
    for name in ("vgg_small", "mlp"):
        _save_backbone(name, folder)
    files = sorted(path for path in folder.iterdir() if path.suffix in FACTS)
    expected = {path.name: FACTS[path.suffix](path) for path in files}
    with replacing(folder / EXPECTED) as partial:
        partial.write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    total = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {len(files)} files, {total:,} bytes")


if __name__ == "__main__":
    main()
