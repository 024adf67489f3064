"""A picture of a learner's memory as SVG: what lies where, and in the memory that layers share, when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from everbit.plan.choices import STACK_BYTES, VARIABLE_BYTES, Choice, Request
from everbit.plan.memory import (
    ACTIVATIONS,
    EXPERIENCE,
    GRADIENTS,
    LEARNED,
    REPLAY,
    SAVED,
    SCRATCH,
    TABLES,
    UNUSED,
    WORK,
    LearnerMemory,
)

WIDTH, HEIGHT = 1000, 580
TOP, BOTTOM = 124, 490
BAR_LEFT, BAR_WIDTH = 24, 150
TIME_LEFT, TIME_RIGHT = 400, 976
FONT = 'font-family="system-ui, sans-serif"'
LEAST_LABEL = 13
"""Pixels of height or width that a text needs."""

SHARED, STACK = "shared by layers", "stack, variables"
COLORS = {
    LEARNED: "#0072b2",
    REPLAY: "#e69f00",
    EXPERIENCE: "#f0c46a",
    TABLES: "#7f7f7f",
    SHARED: "#d9e8d4",
    STACK: "#333333",
    ACTIVATIONS: "#009e73",
    GRADIENTS: "#d55e00",
    SAVED: "#cc79a7",
    SCRATCH: "#56b4e9",
    UNUSED: "#ffffff",
}


@dataclass(frozen=True)
class Segment:
    """A part of the bar: from the lowest address up."""

    name: str
    bytes: int


def memory_map(title: str, choice: Choice, request: Request) -> str:
    """The picture: left the RAM by purpose, right the shared memory over one pass forward and back; below, flash."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'role="img" {FONT} font-size="12">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            _text(24, 30, title, size=17, weight="bold"),
            _text(24, 52, _summary(choice, request), fill="#555555"),
            *_bar(choice),
            *_time(choice.memory),
            *_flash(choice, request),
            "</svg>\n",
        ]
    )


def segments(choice: Choice) -> list[Segment]:
    """Parts of the RAM in the order of their addresses, from the arena's begin; the stack and variables last."""
    memory = choice.memory
    return [
        Segment(LEARNED, memory.by_purpose[LEARNED]),
        Segment(REPLAY, memory.by_purpose[REPLAY]),
        Segment(TABLES, memory.by_purpose[TABLES]),
        Segment(EXPERIENCE, memory.by_purpose[EXPERIENCE]),
        Segment(SHARED, memory.shared),
        Segment(STACK, STACK_BYTES + VARIABLE_BYTES),
    ]


def _summary(choice: Choice, request: Request) -> str:
    return (
        f"cut after {choice.candidate.cut}, bits {choice.candidate.widths}, mini-batches of "
        f"{request.settings.batch_new} + {request.settings.batch_replayed}: an arena of {choice.memory.arena:,} bytes; "
        f"{request.target.title}"
    )


def _bar(choice: Choice) -> Iterator[str]:
    parts = segments(choice)
    total = sum(part.bytes for part in parts)
    yield _text(BAR_LEFT, TOP - 12, "RAM", weight="bold")
    scale = (BOTTOM - TOP) / total
    labels = _spread([sum(p.bytes for p in parts[:i]) * scale + part.bytes * scale / 2 for i, part in enumerate(parts)])
    at = 0.0
    for part, label in zip(parts, labels, strict=True):
        height = part.bytes * scale
        y = TOP + at
        yield _rect(BAR_LEFT, y, BAR_WIDTH, height, COLORS[part.name], f"{part.name}: {part.bytes:,} bytes")
        middle = y + height / 2
        x = BAR_LEFT + BAR_WIDTH
        yield f'<path d="M{x} {middle:.1f} L{x + 14} {TOP + label:.1f}" stroke="#999999" fill="none"/>'
        yield _text(x + 18, TOP + label + 4, f"{part.name}  {part.bytes:,}")
        at += height


def _time(memory: LearnerMemory) -> Iterator[str]:
    """The blocks of the shared memory: time from left to right, addresses downwards."""
    end = 2 * memory.layers - memory.latent  # the frozen part never runs backward
    across, down = (TIME_RIGHT - TIME_LEFT) / end, (BOTTOM - TOP) / memory.shared
    heading = f"{SHARED}: {memory.shared:,} bytes, over one image and one mini-batch"
    yield _text(TIME_LEFT, TOP - 34, heading, weight="bold")
    spans = (
        ("frozen", 0, memory.latent),
        ("learnable", memory.latent, memory.layers),
        ("backward", memory.layers, end),
    )
    for name, first, last in spans:
        x, width = TIME_LEFT + first * across, (last - first) * across
        yield f'<rect x="{x:.1f}" y="{TOP - 26}" width="{max(width - 1, 0.5):.1f}" height="18" fill="#eeeeee"/>'
        if width > 7 * len(name):
            yield _text(x + 4, TOP - 13, name, fill="#555555")
    yield (
        f'<rect x="{TIME_LEFT}" y="{TOP}" width="{TIME_RIGHT - TIME_LEFT}" height="{BOTTOM - TOP}" fill="#f7f7f7" '
        'stroke="#bbbbbb"/>'
    )
    for block in memory.blocks:
        yield _rect(
            TIME_LEFT + block.first * across,
            TOP + block.offset * down,
            (block.last - block.first + 1) * across,
            block.room * down,
            COLORS[block.purpose],
            f"{block.name}, {block.purpose}: {block.bytes:,} bytes at {block.offset:,}",
        )
    x = TIME_LEFT + (memory.moment + 0.5) * across
    yield f'<path d="M{x:.1f} {TOP} V{BOTTOM}" stroke="#000000" stroke-dasharray="2 3"/>'
    yield _text(TIME_LEFT, BOTTOM + 16, "dotted: the fullest moment", fill="#555555")
    place = TIME_LEFT + 180
    for purpose in WORK:
        yield f'<rect x="{place}" y="{BOTTOM + 6}" width="12" height="12" fill="{COLORS[purpose]}"/>'
        yield _text(place + 16, BOTTOM + 16, purpose)
        place += 30 + 7 * len(purpose)


def _flash(choice: Choice, request: Request) -> Iterator[str]:
    """The program and the code beside the device's flash; where there is none, the program alone."""
    limit = request.flash
    total = max(choice.flash, limit or 0)
    y, height, scale = BOTTOM + 44, 20, (TIME_RIGHT - BAR_LEFT) / total
    free = "" if limit is None else f" of {limit:,}"
    code = f", code {request.target.code:,} (estimate)" if request.target.code else ""
    name = "program, from a file" if limit is None else "flash"
    yield _text(BAR_LEFT, y - 8, f"{name}: program {choice.memory.program:,}{code}{free} bytes", weight="bold")
    frame = f'x="{BAR_LEFT}" y="{y}" width="{TIME_RIGHT - BAR_LEFT}" height="{height}"'
    yield f'<rect {frame} fill="#f7f7f7" stroke="#bbbbbb"/>'
    program = choice.memory.program * scale
    yield _rect(BAR_LEFT, y, program, height, "#0072b2", f"program: {choice.memory.program:,} bytes")
    yield _rect(
        BAR_LEFT + program, y, request.target.code * scale, height, "#7f7f7f", f"code: {request.target.code:,} bytes"
    )


def _spread(places: list[float]) -> list[float]:
    """Places of labels, pushed down until none touches the one before, and up again where they leave the bar."""
    spread: list[float] = []
    for place in places:
        spread.append(max(place, spread[-1] + LEAST_LABEL + 2 if spread else 0.0))
    over = max(0.0, spread[-1] - (BOTTOM - TOP))
    for index in reversed(range(len(spread))):
        limit = spread[index + 1] - LEAST_LABEL - 2 if index + 1 < len(spread) else spread[index] - over
        spread[index] = min(spread[index], limit)
    return spread


def _rect(x: float, y: float, width: float, height: float, color: str, title: str) -> str:
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{color}" stroke="#ffffff" '
        f'stroke-width="0.4"><title>{escape(title)}</title></rect>'
    )


def _text(x: float, y: float, text: str, size: int = 12, weight: str = "normal", fill: str = "#111111") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{fill}">{escape(text)}</text>'
    )
