"""A safetensors file, written piece by piece: no tensor needs to be in memory whole.

    length of the header, 8 bytes | header: names, shapes, places | numbers, tensor after tensor by name

All numbers are float32, and the bytes are those that the library safetensors writes.
"""

import json
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from touchstone.protocol.adapters.files.durable_files import write_aside
from touchstone.protocol.compute.digest import tensor_bytes
from touchstone.protocol.compute.program.tensor_allocator import relax
from touchstone.protocol.spec.errors import InvalidInput

PIECE_ELEMENTS = 1 << 20
"""Elements in memory at a time: 4 MB."""
LENGTH_BYTES = 8
ALIGNMENT = 8
"""A header is padded with blanks to a multiple of this many bytes."""


class Made(Protocol):
    """A tensor whose elements are computed while it is written."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""

    def list_pieces(self) -> Iterator[Tensor]:
        """Yields the elements in order, as flat pieces."""


Tensors = Mapping[str, Tensor | Made]


def fill(number: float, shape: tuple[int, ...]) -> Tensor:
    """Returns a tensor with the same number everywhere, which takes the memory of one element."""
    return torch.full((), number, dtype=torch.float32).expand(shape)


def save_tensors(path: Path, tensors: Tensors, metadata: Mapping[str, str] | None = None) -> None:
    """Writes a safetensors file, whole or not at all. An older file stays if this fails. Raises OSError if
    the disk has no room, InvalidInput if a tensor is not float32."""
    header = _make_header(tensors, metadata)
    with write_aside(path) as temporary, temporary.open("wb") as file:
        file.write(header)
        for name in sorted(tensors):
            for piece in _list_pieces(tensors[name]):
                # A single element counts as contiguous with any stride, and then cannot be viewed as bytes.
                is_dense = piece.stride() == (1,)
                dense = piece if is_dense else piece.clone(memory_format=torch.contiguous_format)
                file.write(tensor_bytes(dense))
                relax()


def measure_tensors(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> int:
    """Returns the length in bytes of the file that `save_tensors` writes."""
    return len(_make_header(tensors, metadata)) + sum(map(_measure, tensors.values()))


def _make_header(tensors: Tensors, metadata: Mapping[str, str] | None) -> bytes:
    content: dict[str, object] = {} if metadata is None else {"__metadata__": dict(metadata)}
    start = 0
    for name in sorted(tensors):
        one = tensors[name]
        if isinstance(one, Tensor) and one.dtype is not torch.float32:
            raise InvalidInput(
                what="a tensor has another type",
                expected="float32",
                actual=one.dtype,
                where=name,
                remedy="Convert it first.",
            )
        end = start + _measure(one)
        content[name] = {"dtype": "F32", "shape": list(one.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _measure(tensor: Tensor | Made) -> int:
    return 4 * prod(tensor.shape)


def _list_pieces(tensor: Tensor | Made) -> Iterator[Tensor]:
    if isinstance(tensor, Tensor):
        yield from torch.split(tensor.detach().reshape(-1), PIECE_ELEMENTS)
    else:
        yield from tensor.list_pieces()
