"""Image files and arrays, to and from (height, width, 3) uint8 RGB."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from halfseen.arrays import Pixels
from halfseen.data.files import FilePath, read_most, write_atomically
from halfseen.data.image_guard import (
    MeteredFile,
    MeteredStream,
    check_before,
    check_passes,
    orientation,
)
from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import ImageError

if TYPE_CHECKING:
    from PIL import Image


SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")

# Only formats that Pillow decodes by itself: EPS, for one, would start an interpreter.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_WRITERS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".bmp": "BMP", ".webp": "WEBP"}

# Bytes that decoding takes for each pixel, its result included, at most (WebP with transparency;
# JPEG takes 10).
DECODING_BYTES = 18

_STRIP = 4_000_000  # pixels
_HEADER = 1 << 18  # bytes of a file in which its header is checked before it is opened
# EXIF's orientations as members of Pillow's `Transpose`.
_TURNS: dict[int, Any] = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}

_filters = threading.Lock()

# Pillow logs some faults before it raises them; without a handler Python would print those lines.
logging.getLogger("PIL").addHandler(logging.NullHandler())


def read_image(path: FilePath, limits: Limits = LIMITS, *, upright: bool = False) -> Pixels:
    """Return the pixels of an image file as (height, width, 3) uint8 RGB, or raise ImageError.

    Grey, palette, CMYK and other colour models become RGB. Transparent pixels are laid over white.
    Of 16 bits the high byte is kept; integers of 32 bits must be 0 to 255. Of an animation the
    first frame is read. The size is checked by the header, before anything is decoded.

    By default pixels come in the stored orientation, whatever EXIF says, because annotations are in
    that orientation (only in TIFF does Pillow itself apply it). `upright` turns them as EXIF says:
    for photographs that nobody has annotated.
    """
    return decode_image(_content(Path(path), limits), str(path), limits, upright=upright)


def decode_image(
    content: bytes, name: str = "image", limits: Limits = LIMITS, *, upright: bool = False
) -> Pixels:
    """Return the same of a file's content; `name` is what errors call it."""
    return open_image(content, name, limits).decode(upright=upright)


@dataclass(frozen=True)
class OpenImage:
    """An image whose header was read and checked, and whose pixels were not decoded yet."""

    image: Image.Image
    stream: MeteredStream
    name: str

    @property
    def pixels(self) -> int:
        """Width times height."""
        return self.image.width * self.image.height

    def decode(self, *, upright: bool = False) -> Pixels:
        """Decode it, once, as `read_image` does."""
        image = self.image
        with _named(self.name):
            self.load()
            turn = orientation(image.info) if upright and image.format != "TIFF" else 1
            return _rgb(image.transpose(_TURNS[turn]) if turn in _TURNS else image)

    def load(self) -> None:
        """Let Pillow decode its pixels."""
        self.stream.allow_pixels()
        # Of all formats TIFF alone parses metadata, and so may warn, as it decodes.
        with _quiet() if self.image.format == "TIFF" else contextlib.nullcontext():
            self.image.load()


def open_image(
    content: bytes, name: str = "image", limits: Limits = LIMITS, *, mask: bool = False
) -> OpenImage:
    """Read and check the header of an image, or raise an ImageError that names it."""
    from PIL import Image

    with _named(name, limits):
        if not content:
            raise ImageError("the file is empty")
        if len(content) > limits.image_bytes:
            raise ImageError(f"larger than the limit of {limits.image_bytes:,} bytes")
        check_before(content)
        stream = MeteredStream(content)
        with _quiet():
            image = Image.open(stream, formats=_FORMATS)
        _check_size(image, len(content), limits, mask)
        check_passes(content, image.width * image.height)
        return OpenImage(image, stream, name)


def read_size(path: FilePath, limits: Limits = LIMITS) -> tuple[int, int]:
    """Read (height, width) from an image file's header alone."""
    from PIL import Image

    file = Path(path)
    if not file.is_file():
        raise ImageError(f"{file}: no such file")
    with _named(str(file), limits), MeteredFile(file) as stream:
        start = stream.read(_HEADER)
        if start.startswith(b"\xff\xd8") and b"\xff\xda" not in start:
            start += read_most(
                stream, limits.image_bytes
            )  # a JPEG header ends where its pixels begin
        check_before(start)
        stream.seek(0)
        with _quiet():
            width, height = Image.open(stream, formats=_FORMATS).size
        if width * height > limits.pixels:
            raise ImageError(f"{width} x {height} pixels exceed the limit of {limits.pixels:,}")
    return height, width


def read_indices(path: FilePath, limits: Limits = LIMITS) -> Pixels:
    """Return the palette indices, or grey levels, of a mask file: (height, width) uint8."""
    opened = open_image(_content(Path(path), limits), str(path), limits, mask=True)
    with _named(str(path), limits):
        opened.load()
    return np.array(opened.image, dtype=np.uint8)


def as_image(array: Any) -> Pixels:
    """Return a uint8 array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) as (H, W, 3) RGB.

    A fourth channel is opacity: the picture is laid over white. An image of Pillow is converted as
    `read_image` does. Anything else is an ImageError.
    """
    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and isinstance(array, pillow.Image):
        with _named("image"):
            return _rgb(array)
    if not hasattr(array, "__array__"):
        raise ImageError(
            "image: expected a uint8 array (height, width, 3) or an image of Pillow, found "
            f"{type(array).__name__}; of a file hs.read_image gives the array"
        )
    pixels = np.asarray(array)
    if pixels.dtype != np.uint8:
        advice = (
            "; of 0 to 1 take (255 * image).astype('uint8')" if pixels.dtype.kind == "f" else ""
        )
        raise ImageError(f"image array: expected uint8 (0 to 255), found {pixels.dtype}{advice}")
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or 0 in pixels.shape:
        raise ImageError(
            f"image array: expected a shape (height, width), with or without 1, 3 or 4 channels, "
            f"found {np.shape(array)}"
        )
    if pixels.shape[2] == 4:
        pixels = _over_white(pixels)
    return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def write_image(path: FilePath, array: Any, *, quality: int = 95) -> None:
    """Write what `as_image` takes in the format that the suffix names, whole or not at all."""
    from PIL import Image

    file = Path(path)
    if file.suffix.lower() not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise ImageError(f"{file}: cannot write '{file.suffix}' images; use one of {known}")
    image = Image.fromarray(as_image(array))
    buffer = io.BytesIO()
    try:
        image.save(buffer, _WRITERS[file.suffix.lower()], quality=quality)
        write_atomically(file, buffer.getvalue())
    except (OSError, ValueError) as error:  # the disk's, or a size that the format cannot hold
        reason = getattr(error, "strerror", None) or _reason(error)
        raise ImageError(f"{file}: cannot be written: {reason}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Pillow's warnings of odd metadata, and of sizes, which `open_image` checks itself.

    Swapping warning filters is not thread-safe, and images are read from many threads: one at a
    time. Decoding, which takes the time, stays outside, and what stays inside is bounded.
    """
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _named(name: str, limits: Limits = LIMITS) -> Iterator[None]:
    """Turn whatever goes wrong with a file into an ImageError that names it."""
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except ImageError as error:
        raise ImageError(f"{name}: {error}") from None
    except UnidentifiedImageError:
        raise ImageError(
            f"{name}: not an image of a known format ({', '.join(_FORMATS)})"
        ) from None
    except Image.DecompressionBombError:
        raise ImageError(f"{name}: its pixels exceed the limit of {limits.pixels:,}") from None
    except Exception as error:  # strangers' bytes make Pillow's parsers raise almost anything
        raise ImageError(f"{name}: damaged image: {_reason(error)}") from None


def _check_size(image: Image.Image, size: int, limits: Limits, mask: bool) -> None:
    """Raise ImageError for too many pixels, or for too many in a file of so many bytes."""
    pixels = image.width * image.height
    shape = f"{image.width} x {image.height} pixels"
    if pixels > limits.pixels:
        raise ImageError(f"{shape} exceed the limit of {limits.pixels:,}")
    if mask:
        if image.mode not in ("P", "L"):
            raise ImageError(f"expected a palette or grey mask, found mode {image.mode}")
    elif pixels > max(limits.sparse_pixels, limits.pixels_per_byte * size):
        raise ImageError(
            f"{shape} in {size:,} bytes: beyond {limits.sparse_pixels:,} pixels expected at most "
            f"{limits.pixels_per_byte} a byte; shrink it, or save it as JPEG"
        )


def _content(file: Path, limits: Limits) -> bytes:
    """Return the bytes of a file, one more than the limit at most."""
    if not file.exists():
        raise ImageError(f"{file}: no such file")
    if not file.is_file():
        raise ImageError(f"{file}: expected an image file, found a folder or device")
    try:
        with file.open("rb") as stream:
            return read_most(stream, limits.image_bytes + 1)
    except OSError as error:
        raise ImageError(f"{file}: cannot be read: {error.strerror or error}") from None


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__


def _rgb(image: Image.Image) -> Pixels:
    """Convert a strip of rows at a time, so that Pillow copies no whole picture on the way."""
    width, height = image.size
    pixels = np.empty((height, width, 3), np.uint8)
    rows = max(_STRIP // width, 1)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        strip = image.crop((0, top, width, bottom))
        pixels[top:bottom] = _rgb_strip(strip, image.format == "TIFF")
    return pixels


def _rgb_strip(image: Image.Image, tiff: bool) -> Pixels:
    if image.mode == "I" and tiff:  # integers of 32 bits; of other formats "I" holds 16 bits
        levels = np.asarray(image)
        if levels.min() < 0 or levels.max() > 0xFF:
            raise ImageError(
                f"integers of 32 bits from {levels.min():,} to {levels.max():,}, expected 0 to "
                "255; convert it to 8 or 16 bits"
            )
        return as_image(levels.astype(np.uint8))
    if image.mode.startswith("I"):
        levels = np.asarray(image)
        if levels.min() < 0 or levels.max() > 0xFFFF:
            raise ImageError("expected 8 or 16 bits a channel, found 32")
        return as_image((levels.astype(np.uint16) >> 8).astype(np.uint8))
    if image.mode == "F":
        raise ImageError("expected 8 or 16 bits a channel, found floating-point numbers")
    if image.has_transparency_data:
        return _over_white(np.asarray(image.convert("RGBA")))
    return np.array(image.convert("RGB"), dtype=np.uint8)


def _over_white(pixels: Pixels) -> Pixels:
    """Lay RGBA over a white page: a c + (1 - a) 255, rounded, in integers."""
    opacity = pixels[:, :, 3:].astype(np.uint16)
    mixed = opacity * pixels[:, :, :3] + (255 - opacity) * np.uint16(255)
    return ((mixed + 127) // 255).astype(np.uint8)
