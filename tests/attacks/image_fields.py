"""A program image taken apart into its int32 fields by name, to be changed one at a time."""

from __future__ import annotations

import struct

HEADER = ("version", "image_bytes", "tensor_count", "layer_count", "parameter_count", "head_range", "logit_mantissa")
HEADER += ("logit_exponent", "feature_mantissa", "feature_exponent", "known_classes", "known_weights")
HEADER += ("known_bias", "known_past", "reserved0", "reserved1")
TENSOR = ("height", "width", "channels", "bits", "zero_point")
LAYER = ("operation", "input0", "input1", "output", *(f"attribute{i}" for i in range(8)))
LAYER += (*(f"array{i}_{part}" for i in range(4) for part in ("offset", "bytes")), *(f"parameter{i}" for i in range(3)))
PARAMETER = ("layer", "kind", "count", "range", "offset", "bytes")
MAGIC_BYTES = 8


class ImageFields:
    """fields: name, such as "header.version" or "layer.3.output" -> offset in the image."""

    def __init__(self, image: bytes) -> None:
        self.image = bytearray(image)
        self.fields: dict[str, int] = {}
        self._at = MAGIC_BYTES
        self._table("header", HEADER)
        self.ends = {"header": self._at}
        for name, record in (("tensor", TENSOR), ("layer", LAYER), ("parameter", PARAMETER)):
            for index in range(self[f"header.{name}_count"]):
                self._table(f"{name}.{index}", record)
                self.ends[f"{name}.{index}"] = self._at

    def _table(self, prefix: str, names: tuple[str, ...]) -> None:
        for name in names:
            self.fields[f"{prefix}.{name}"] = self._at
            self._at += 4

    @property
    def table_bytes(self) -> int:
        """Bytes of the header and all records."""
        return self._at

    def __getitem__(self, name: str) -> int:
        return int(struct.unpack_from("<i", self.image, self.fields[name])[0])

    def __setitem__(self, name: str, value: int) -> None:
        struct.pack_into("<i", self.image, self.fields[name], value)

    def changed(self, **values: int) -> bytes:
        """The image with other values in some fields; dots of the names written as double underscores."""
        before = bytes(self.image)
        for name, value in values.items():
            self[name.replace("__", ".")] = value
        after, self.image = bytes(self.image), bytearray(before)
        return after
