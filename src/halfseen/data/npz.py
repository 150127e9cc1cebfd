"""Arrays from a stranger's .npz file: numbers and texts only, and no more than fits in memory."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import AnnotationError

KINDS = "biufU"


def read_arrays(
    content: bytes, names: Sequence[str] | None = None, limits: Limits = LIMITS
) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file's content; AnnotationError if any of `names` is not among them.

    What the archive says of its sizes is checked before any array is allocated, and `zipfile`
    stops at those sizes, whatever the compressed data would make of them.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            most = most_bytes(len(content), limits)
            if sum(member.file_size for member in members) > most:
                raise AnnotationError(f"its arrays exceed the limit of {most:,} bytes")
            arrays = {
                member.filename.removesuffix(".npy"): _read_array(archive, member)
                for member in members
            }
    except AnnotationError:
        raise
    except Exception as error:  # strangers' bytes make numpy's and zipfile's parsers raise anything
        reason = " ".join(str(error).split())
        raise AnnotationError(f"not a file of arrays: {reason or type(error).__name__}") from None
    missing = [name for name in names or () if name not in arrays]
    if missing:
        raise AnnotationError(f"array {missing[0]} is missing")
    return arrays


def most_bytes(size: int, limits: Limits) -> int:
    """The bytes that arrays from a file of `size` bytes may have."""
    return min(limits.arrays_bytes, max(limits.sparse_arrays_bytes, limits.arrays_per_byte * size))


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as stream:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(stream)
        if dtype.kind not in KINDS or dtype.fields is not None:
            raise AnnotationError(f"{member.filename}: expected numbers or texts, found {dtype}")
        size = dtype.itemsize * math.prod(shape)
        if min(shape, default=0) < 0 or size > member.file_size:
            raise AnnotationError(f"{member.filename}: shorter than its shape {shape} says")
        data = bytearray(stream.read(size))
    if len(data) != size:
        raise AnnotationError(f"{member.filename}: shorter than its shape {shape} says")
    array = np.frombuffer(data, dtype) if size else np.empty(math.prod(shape), dtype)
    return array.reshape(shape, order="F" if fortran else "C")
