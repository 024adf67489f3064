"""Measurements of speed and memory behind `everbit bench`: one short module each, compared in the same run.

The result is a ratio: to a peer's time, to the processor's limit, to the planned bytes. Times are kept beside it.
"""
