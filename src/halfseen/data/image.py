"""Image files and arrays, to and from (height, width, 3) uint8 RGB."""

from __future__ import annotations

import contextlib
import io
import logging
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from halfseen.data.files import FilePath, read_most, write_atomically
from halfseen.data.limits import LIMITS, Limits
from halfseen.errors import ImageError

if TYPE_CHECKING:
    from PIL import Image

Pixels = NDArray[np.uint8]

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")

# Only formats that Pillow decodes by itself: EPS, for one, would start an interpreter.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
_WRITERS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".bmp": "BMP", ".webp": "WEBP"}

_STRIP = 4_000_000  # pixels

_filters = threading.Lock()

# Pillow logs some faults before it raises them; without a handler Python would print those lines.
logging.getLogger("PIL").addHandler(logging.NullHandler())


def read_image(path: FilePath, limits: Limits = LIMITS, *, upright: bool = False) -> Pixels:
    """The pixels of an image file as (height, width, 3) uint8 RGB, or ImageError.

    Grey, palette, CMYK and other colour models become RGB. Transparent pixels are laid over white.
    Of 16 bits the high byte is kept. Of an animation the first frame is read. The size is judged
    by the header, before anything is decoded.

    By default pixels come in the stored orientation, EXIF's wish to rotate them notwithstanding,
    because annotations are in that orientation (only in TIFF does Pillow itself apply it).
    `upright` turns them as EXIF says: for photographs that nobody has annotated.
    """
    return decode_image(_content(Path(path), limits), str(path), limits, upright=upright)


def decode_image(
    content: bytes, name: str = "image", limits: Limits = LIMITS, *, upright: bool = False
) -> Pixels:
    """The same of a file's content; `name` is what errors call it."""
    from PIL import ImageOps

    image = _decode(content, name, limits)
    try:
        if upright:
            with _quiet():
                image = ImageOps.exif_transpose(image)
        return _rgb(image)
    except ImageError as error:
        raise ImageError(f"{name}: {error}") from None
    except Exception as error:  # as in _decode
        raise ImageError(f"{name}: damaged image: {_reason(error)}") from None


def read_indices(path: FilePath, limits: Limits = LIMITS) -> Pixels:
    """The palette indices, or grey levels, of a mask file: (height, width) uint8."""
    image = _decode(_content(Path(path), limits), str(path), limits)
    if image.mode not in ("P", "L"):
        raise ImageError(f"{path}: expected a palette or grey mask, found mode {image.mode}")
    return np.array(image, dtype=np.uint8)


def as_image(array: Any) -> Pixels:
    """A uint8 array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) as (H, W, 3) RGB, or ImageError.

    A fourth channel is opacity: the picture is laid over white.
    """
    pixels = np.asarray(array)
    if pixels.dtype != np.uint8:
        raise ImageError(f"image array: expected uint8 (0 to 255), found {pixels.dtype}")
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
    """Without Pillow's warnings of odd metadata, and of large sizes, which `_decode` judges itself.

    Swapping warning filters is not thread-safe, and images are read from many threads: one at a
    time. Decoding, which takes the time, stays outside.
    """
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _decode(content: bytes, name: str, limits: Limits) -> Image.Image:
    """The first frame of a file, decoded, or an ImageError that names the file."""
    from PIL import Image, UnidentifiedImageError

    if not content:
        raise ImageError(f"{name}: the file is empty")
    if len(content) > limits.image_bytes:
        raise ImageError(f"{name}: larger than the limit of {limits.image_bytes:,} bytes")
    try:
        with _quiet():
            image = Image.open(io.BytesIO(content), formats=_FORMATS)
        width, height = image.size
        if width * height > limits.pixels:
            raise ImageError(
                f"{name}: {width} x {height} pixels exceed the limit of {limits.pixels:,}"
            )
        # Of all formats TIFF alone parses metadata, and so may warn, as it decodes.
        with _quiet() if image.format == "TIFF" else contextlib.nullcontext():
            image.load()
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError(
            f"{name}: not an image of a known format ({', '.join(_FORMATS)})"
        ) from None
    except Image.DecompressionBombError:
        raise ImageError(f"{name}: its pixels exceed the limit of {limits.pixels:,}") from None
    except Exception as error:  # strangers' bytes make Pillow's parsers raise almost anything
        raise ImageError(f"{name}: damaged image: {_reason(error)}") from None
    return image


def _content(file: Path, limits: Limits) -> bytes:
    """The bytes of a file, one more than the limit at most."""
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
    """A strip of rows at a time, so that what Pillow copies on the way is no whole picture."""
    width, height = image.size
    pixels = np.empty((height, width, 3), np.uint8)
    rows = max(_STRIP // width, 1)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        pixels[top:bottom] = _rgb_strip(image.crop((0, top, width, bottom)))
    return pixels


def _rgb_strip(image: Image.Image) -> Pixels:
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
    """RGBA over a white page: a c + (1 - a) 255, rounded, in integers."""
    opacity = pixels[:, :, 3:].astype(np.uint16)
    mixed = opacity * pixels[:, :, :3] + (255 - opacity) * np.uint16(255)
    return ((mixed + 127) // 255).astype(np.uint8)
