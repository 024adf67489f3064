"""Reading pickles of plain data without executing them.

A pickle is a program for a stack machine, and one of its instructions calls any function by name. This reader has no
such instruction: it knows those that make numbers, text, bytes, lists, tuples and dictionaries, and takes the few names
by which NumPy arrays of numbers are written (``everbit.data.pickled_arrays``) as words, never as functions. Any other
name or instruction is an error. Memory stays in proportion to the file.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from everbit.data.pickled_arrays import CALLS, Fillable, Name
from everbit.errors import DataError

NEWEST_PROTOCOL = 5


def read_plain_pickle(path: Path) -> Any:
    """What a pickle of protocol 0 to 5 holds: plain Python values; NumPy arrays of numbers come as nested lists.

    Text of Python 2 is read as Latin-1. Raises DataError where the file is missing, damaged, or holds anything else.
    """
    try:
        return _Reader(path.read_bytes()).value()
    except OSError as error:
        raise DataError(f"cannot read {path} ({error.strerror}): check the path") from error
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, SyntaxError, struct.error) as error:
        raise DataError(
            f"{path} is damaged or holds more than plain data ({error}): get it again from its authors"
        ) from error


class _Reader:
    """The stack machine. Every value that an instruction can make is harmless."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def value(self) -> Any:
        """Runs the program to its end."""
        data, stack, push = self.data, self.stack, self.stack.append
        shared: dict[int, int] = {}  # equal integers are one object: lists of indices stay small
        position = 0
        while True:
            opcode = data[position]
            if opcode == 0x4B:  # K: the first three are nearly all of a list of indices
                push(data[position + 1])
                position += 2
            elif opcode == 0x4D:  # M
                number = data[position + 1] | data[position + 2] << 8
                push(shared.setdefault(number, number))
                position += 3
            elif opcode == 0x4A:  # J; cut short, the next instruction is missing
                number = int.from_bytes(data[position + 1 : position + 5], "little", signed=True)
                push(shared.setdefault(number, number))
                position += 5
            elif opcode == 0x2E:  # .
                if self.marks or len(stack) != 1:
                    raise ValueError("it ends too early")
                return stack[0]
            elif opcode in OPCODES:
                self.position = position + 1
                OPCODES[opcode](self)
                position = self.position
            else:
                raise ValueError(f"instruction {chr(opcode)!r} at byte {position}")

    def taken(self, count: int) -> bytes:
        """The next bytes."""
        part = self.data[self.position : self.position + count]
        if count < 0 or len(part) != count:
            raise ValueError("it is cut short")
        self.position += count
        return part

    def number(self, layout: str) -> Any:
        """The next number in a layout of `struct`."""
        return struct.unpack(layout, self.taken(struct.calcsize(layout)))[0]

    def counted(self, layout: str) -> bytes:
        """The next bytes, their number before them."""
        return self.taken(self.number(layout))

    def line(self) -> str:
        """The text up to the end of the line."""
        end = self.data.index(b"\n", self.position)
        return self.taken(end + 1 - self.position)[:-1].decode("latin-1")

    def pop(self) -> Any:
        """The uppermost value, not below a mark."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise ValueError("a value is missing")
        return self.stack.pop()

    def top(self, kind: type | tuple[type, ...]) -> Any:
        """The uppermost value, which stays there."""
        value = self.pop()
        if not isinstance(value, kind):
            raise ValueError(f"a {type(value).__name__} where another kind is needed")
        self.stack.append(value)
        return value

    def popped(self, count: int) -> tuple[Any, ...]:
        return tuple(self.pop() for _ in range(count))[::-1]

    def since_mark(self) -> list[Any]:
        """The values above the last mark, which goes."""
        mark = self.marks.pop()
        values = self.stack[mark:]
        del self.stack[mark:]
        return values


def _pushes(make: Callable[[_Reader], Any]) -> Callable[[_Reader], None]:
    def run(reader: _Reader) -> None:
        reader.stack.append(make(reader))

    return run


def _stores(key: Callable[[_Reader], int]) -> Callable[[_Reader], None]:
    def run(reader: _Reader) -> None:
        reader.memo[key(reader)] = reader.top(object)

    return run


def _name(module: str, name: str) -> Name:
    if (module, name) not in CALLS:
        raise ValueError(f"it asks for {module}.{name}, which is not plain data")
    return Name(module, name)


def _called(reader: _Reader) -> Any:
    name, arguments = reader.popped(2)
    if not isinstance(name, Name) or not isinstance(arguments, tuple):
        raise ValueError("a call of something that is no name")
    return CALLS[name.module, name.name](*arguments)


def _fill(reader: _Reader) -> None:
    state = reader.pop()
    reader.top(Fillable).fill(state)


def _append(reader: _Reader) -> None:
    value = reader.pop()
    reader.top(list).append(value)


def _extend(reader: _Reader) -> None:
    values = reader.since_mark()
    reader.top(list).extend(values)


def _set_item(reader: _Reader) -> None:
    key, value = reader.popped(2)
    reader.top(dict)[key] = value


def _pairs(values: list[Any]) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


def _set_items(reader: _Reader) -> None:
    pairs = _pairs(reader.since_mark())
    reader.top(dict).update(pairs)


def _text_integer(reader: _Reader) -> int:
    text = reader.line()
    return {"00": False, "01": True}[text] if text in ("00", "01") else int(text.removesuffix("L"))


def _quoted(reader: _Reader) -> str:
    value = ast.literal_eval(f"b{reader.line()}")
    if not isinstance(value, bytes):
        raise ValueError("text without quotes")
    return value.decode("latin-1")


def _protocol(reader: _Reader) -> None:
    if (protocol := reader.taken(1)[0]) > NEWEST_PROTOCOL:
        raise ValueError(f"it has protocol {protocol}, the newest known is {NEWEST_PROTOCOL}")


def _skip_frame(reader: _Reader) -> None:
    reader.number("<Q")


_INSTRUCTIONS: dict[bytes, Callable[[_Reader], None]] = {
    b"\x80": _protocol,
    b"\x95": _skip_frame,
    b"(": lambda reader: reader.marks.append(len(reader.stack)),
    b"N": _pushes(lambda reader: None),
    b"\x88": _pushes(lambda reader: True),
    b"\x89": _pushes(lambda reader: False),
    b"I": _pushes(_text_integer),
    b"L": _pushes(_text_integer),
    b"\x8a": _pushes(lambda reader: int.from_bytes(reader.counted("<B"), "little", signed=True)),
    b"\x8b": _pushes(lambda reader: int.from_bytes(reader.counted("<i"), "little", signed=True)),
    b"F": _pushes(lambda reader: float(reader.line())),
    b"G": _pushes(lambda reader: reader.number(">d")),
    b"S": _pushes(_quoted),
    b"T": _pushes(lambda reader: reader.counted("<i").decode("latin-1")),
    b"U": _pushes(lambda reader: reader.counted("<B").decode("latin-1")),
    b"V": _pushes(lambda reader: reader.line().encode("latin-1").decode("raw-unicode-escape")),
    b"X": _pushes(lambda reader: reader.counted("<I").decode("utf-8", "surrogatepass")),
    b"\x8c": _pushes(lambda reader: reader.counted("<B").decode("utf-8", "surrogatepass")),
    b"\x8d": _pushes(lambda reader: reader.counted("<Q").decode("utf-8", "surrogatepass")),
    b"B": _pushes(lambda reader: reader.counted("<I")),
    b"C": _pushes(lambda reader: reader.counted("<B")),
    b"\x8e": _pushes(lambda reader: reader.counted("<Q")),
    b"\x96": _pushes(lambda reader: reader.counted("<Q")),
    b"]": _pushes(lambda reader: []),
    b"l": _pushes(lambda reader: reader.since_mark()),
    b")": _pushes(lambda reader: ()),
    b"t": _pushes(lambda reader: tuple(reader.since_mark())),
    b"\x85": _pushes(lambda reader: reader.popped(1)),
    b"\x86": _pushes(lambda reader: reader.popped(2)),
    b"\x87": _pushes(lambda reader: reader.popped(3)),
    b"}": _pushes(lambda reader: {}),
    b"d": _pushes(lambda reader: _pairs(reader.since_mark())),
    b"a": _append,
    b"e": _extend,
    b"s": _set_item,
    b"u": _set_items,
    b"p": _stores(lambda reader: int(reader.line())),
    b"q": _stores(lambda reader: int(reader.number("<B"))),
    b"r": _stores(lambda reader: int(reader.number("<I"))),
    b"\x94": _stores(lambda reader: len(reader.memo)),
    b"g": _pushes(lambda reader: reader.memo[int(reader.line())]),
    b"h": _pushes(lambda reader: reader.memo[reader.number("<B")]),
    b"j": _pushes(lambda reader: reader.memo[reader.number("<I")]),
    b"c": _pushes(lambda reader: _name(reader.line(), reader.line())),
    b"\x93": _pushes(lambda reader: _name(*map(str, reader.popped(2)))),
    b"R": _pushes(_called),
    b"b": _fill,
}
OPCODES = {opcode[0]: run for opcode, run in _INSTRUCTIONS.items()}
