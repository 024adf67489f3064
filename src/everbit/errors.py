"""Every error a user can cause. Each message says what is wrong, where, and what to do about it."""

from __future__ import annotations


class EverbitError(Exception):
    """Base of all errors raised on purpose; the command line prints its message without a traceback."""


class DataError(EverbitError):
    """A data set is missing, damaged or unknown."""


class ImageError(EverbitError, ValueError):
    """Images of a wrong shape, dtype or content."""


class LabelError(EverbitError, ValueError):
    """Labels that do not match the images, cannot be hashed, or exceed the learner's class capacity."""


class FormatError(EverbitError, ValueError):
    """A model, learner or foreign network file that is truncated, foreign, damaged or written by a newer version."""


class UnsupportedError(EverbitError):
    """A file of another framework whose network has a step that everbit lacks; names the step and its place."""


class CompileError(EverbitError):
    """A network that cannot be lowered to a program; names the module path and what would work."""


class ConfigurationError(EverbitError, ValueError):
    """An option outside its range, or options that contradict each other."""


class CapacityError(EverbitError, MemoryError):
    """A memory budget too small for what was asked."""


class OutputError(EverbitError, OSError):
    """A file or folder that cannot be written."""


class WorkerError(EverbitError):
    """Processes or machines that were lost again and again."""
