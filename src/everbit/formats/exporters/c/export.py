"""Writing the project: what the host learned first, then files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from everbit._engine import digest, planned_memory
from everbit.compile.image import program_image
from everbit.compile.program import Program
from everbit.data.dataset import Dataset
from everbit.errors import ConfigurationError
from everbit.formats.exporters.c.engine_sources import engine_sources
from everbit.formats.exporters.c.model_files import Model, Rows, header, source
from everbit.formats.exporters.c.samples import Images, choose_samples
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths
from everbit.whole_file import replacing

PROJECT = Path(__file__).with_name("project")
WORDS_OF_ADDRESSES = (4, 8)


@dataclass(frozen=True)
class Exported:
    """What was written, and the learner's memory by purpose where addresses have 4 and 8 bytes."""

    folder: Path
    model: Model
    memory: dict[int, dict[str, int]]


def export_c(
    program: Program,
    name: str,
    folder: Path,
    dataset: Dataset,
    settings: Settings,
    widths: Widths | str | None = None,
    *,
    images: int = 8,
    tests: int = 8,
    epochs: int = 5,
) -> Exported:
    """Writes a project that learns `settings.classes` classes of a data set on a device.

    images: of each class, half of them as latents; tests: of each class. The settings' own number of images in an
    experience is replaced by what the project needs. Raises ConfigurationError, OutputError.
    """
    if images < 2:
        raise ConfigurationError(f"images of each class: {images}; give at least 2, one as a latent and one as it is")
    samples = choose_samples(dataset, program.input_shape, settings.classes, images, tests)
    most = max(len(samples.first[1]), len(samples.second[1]))
    learner = Learner(program, replace(settings, experience_images=most), widths)
    names = tuple(map(str, (*learner.classes_, *samples.names)))
    options = learner.engine_options | {"threads": 1}
    known = len(learner.classes_)
    latents = learner.latents(samples.first[0])
    for part, labels in (samples.first, samples.second):
        learner.partial_fit(part, [("new", label) for label in labels], epochs=epochs)
    predicted = learner.predict(samples.tests[0])
    image = program_image(program)
    memory = {size: planned_memory(image, options, size) for size in WORDS_OF_ADDRESSES}
    model = Model(
        name=name,
        program=image,
        options=options,
        names=names,
        arena={size: planned["total"] for size, planned in memory.items()},
        epochs=epochs,
        latents=(latents, [known + label for label in samples.first[1]]),
        images=(_rows(samples.second[0]), [known + label for label in samples.second[1]]),
        tests=(_rows(samples.tests[0]), [known + label for label in samples.tests[1]]),
        digest=digest(learner.state),
        right=sum(a == ("new", b) for a, b in zip(predicted, samples.tests[1], strict=True)),
    )
    _write(folder, model)
    return Exported(folder, model, memory)


def _rows(images: Images) -> Rows:
    return images.reshape(len(images), -1)


def _write(folder: Path, model: Model) -> None:
    """Files that are there already, with the same content, are left alone: what was built of them need not be built
    again."""
    paths = {path.relative_to(PROJECT).as_posix(): path for path in sorted(PROJECT.rglob("*")) if path.is_file()}
    contents = {name: path.read_bytes() for name, path in (paths | engine_sources()).items()}
    contents["model.h"] = header(model).encode()
    contents["model.c"] = ("\n".join(source(model)) + "\n").encode()
    contents["model.program"] = model.program
    for old in (folder / "engine").rglob("*.[ch]*"):  # of another version: it would be compiled too
        if old.relative_to(folder).as_posix() not in contents:
            old.unlink()
    for name, content in contents.items():
        path = folder / name
        if path.is_file() and path.read_bytes() == content:
            continue
        with replacing(path) as partial:
            partial.write_bytes(content)
