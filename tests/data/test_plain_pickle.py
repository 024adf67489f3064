"""Pickles of plain data: what Python's own reader makes of them, without its powers; hostile files are refused."""

from __future__ import annotations

import os
import pickle
import random
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everbit.data.plain_pickle import read_plain_pickle
from everbit.errors import DataError

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
SHARED = ["s1/o1/C_01_01_000.png"] * 3
ARRAYS = [
    np.arange(6, dtype=np.int64),
    np.arange(6, dtype=">i4").reshape(2, 3),
    np.asfortranarray(np.arange(12, dtype=np.uint16).reshape(3, 4)),
    np.array([True, False]),
    np.array([0.5, -1.5], np.float32),
    np.array([], np.int64),
]


class Hostile:
    """Would run a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


def read(path: Path, content: bytes) -> Any:
    path.write_bytes(content)
    return read_plain_pickle(path)


@settings(deadline=None, max_examples=150)
@given(values, st.sampled_from(PROTOCOLS))
def test_plain_values(tmp_path_factory: pytest.TempPathFactory, value: Any, protocol: int) -> None:
    path = tmp_path_factory.getbasetemp() / "plain.pkl"
    assert read(path, pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_long_and_shared_values(tmp_path: Path, protocol: int) -> None:
    indices = random.Random(0).choices(range(-5, 170_000), k=5000)
    value = {"nc": [[indices, SHARED], [indices, SHARED]], 3: (2**40, -(2**33), "x" * 300, b"y" * 300), "e": ()}
    found = read(tmp_path / "plain.pkl", pickle.dumps(value, protocol))
    assert found == value
    assert found["nc"][0][0] is found["nc"][1][0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_come_as_lists(tmp_path: Path, protocol: int) -> None:
    value = {"arrays": ARRAYS, "again": ARRAYS[0], "scalars": [np.int64(7), np.float32(0.5)]}
    found = read(tmp_path / "plain.pkl", pickle.dumps(value, protocol))
    assert found == {"arrays": [a.tolist() for a in ARRAYS], "again": list(range(6)), "scalars": [7, 0.5]}


@pytest.mark.parametrize("module", ["numpy.core", "numpy._core"])
def test_arrays_of_older_and_newer_numpy(tmp_path: Path, module: str) -> None:
    content = pickle.dumps(np.arange(3), 2).replace(b"numpy._core", b"numpy.core")
    assert read(tmp_path / "plain.pkl", content.replace(b"numpy.core", module.encode())) == [0, 1, 2]


def test_text_of_python_2(tmp_path: Path) -> None:
    path = tmp_path / "plain.pkl"
    assert read(path, b"\x80\x02]q\x00(U\x02s1q\x01T\x03\x00\x00\x00abch\x01e.") == ["s1", "abc", "s1"]
    assert read(path, b"(lp0\nS's1/o1'\np1\naL5L\naI01\naI7\na.") == ["s1/o1", 5, True, 7]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_called(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "mark"
    for value in (
        Hostile(mark),
        {"a": [Hostile(mark)]},
        np.array([Hostile(mark)], object),
        OrderedDict(a=1),
        len,
        Path,
    ):
        with pytest.raises(DataError, match=r"holds more than plain data .*not plain data|not of numbers"):
            read(tmp_path / "hostile.pkl", pickle.dumps(value, protocol))
    assert not mark.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
        b"cnumpy\ndtype\n(S'O'\nI00\nI01\ntR.",
        b"cnumpy\nload\n(S'/etc/passwd'\ntR.",
        b"\x80\x02\x82\x01.",
        b"Pid\n.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02]}b.",
        b"\x80\x02]K\x01\x81.",
        b"\x80\x06N.",
        b"K\x01K\x02.",
        b"(K\x01.",
        b"K\x01",
        b"",
        b".",
        b"a.",
        b"(e.",
        b"K\x01a.",
        b"](K\x01u.",
        b"}(K\x01u.",
        b"}(]K\x01u.",
        b"h\x05.",
        b"j\xff\xff\xff\xff.",
        b"K\x01K\x02R.",
        b"I999999999999999999999x\n.",
        b"S__import__('os')\n.",
        b"S'a'.upper()\n.",
        b"X\xff\xff\xff\xffa.",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fa.",
        b"T\xff\xff\xff\xffa.",
        b"\x8b\xff\xff\xff\xff.",
        b"X\x01\x00\x00\x00\xff.",
        b"hello, this is no pickle",
        b"PK\x03\x04",
    ],
)
def test_hostile_and_foreign_files(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match="damaged or holds more than plain data"):
        read(tmp_path / "hostile.pkl", content)


def test_arrays_that_do_not_add_up(tmp_path: Path) -> None:
    sound = pickle.dumps(np.arange(300, dtype=np.int64), 2)
    assert b"M,\x01\x85" in sound  # the shape
    for shape in (b"M-\x01\x85", b"M\x00\x00\x85", b"J\xff\xff\xff\x7f\x85", b"J\xff\xff\xff\x7fK\x00\x86", b")", b"N"):
        with pytest.raises(DataError, match="damaged"):
            read(tmp_path / "hostile.pkl", sound.replace(b"M,\x01\x85", shape))


def test_memory_stays_in_proportion(tmp_path: Path) -> None:
    doubling = b"\x80\x02]K\x01a" + b"".join(b"q%c]h%ca" % (i, i) + b"h%ca" % i for i in range(60)) + b"."
    huge_memo = b"\x80\x02Nr\xff\xff\xff\xff."
    tracemalloc.start()
    for content in (doubling, huge_memo):
        try:
            read(tmp_path / "hostile.pkl", content)
        except DataError:
            continue
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_cut_and_many_mutations_are_refused_or_plain(tmp_path: Path, protocol: int) -> None:
    content = pickle.dumps({"nc": [[1, 300, 70_000], ("a", b"b", 1.5, None)], "a": np.arange(4)}, protocol)
    path = tmp_path / "hostile.pkl"
    for length in range(len(content)):
        with pytest.raises(DataError):
            read(path, content[:length])
    rng = random.Random(protocol)
    for _ in range(300):
        mutated = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            mutated[rng.randrange(len(mutated))] = rng.randrange(256)
        try:
            read(path, bytes(mutated))
        except DataError:
            continue


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*absent.pkl"):
        read_plain_pickle(tmp_path / "absent.pkl")
