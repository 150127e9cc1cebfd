"""Small image files that ask for hours or for all memory."""

import io
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from halfseen.data.image import decode_image, read_image, read_indices, read_size
from halfseen.data.image_guard import MeteredStream, orientation
from halfseen.data.limits import LIMITS
from halfseen.errors import ImageError

PICTURE = np.random.default_rng(0).integers(0, 256, (7, 11, 3), dtype=np.uint8)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def small(kind: str, **options: Any) -> bytes:
    return encoded(Image.fromarray(PICTURE), kind, **options)


def chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def tag_bomb(tags: int, size: int) -> bytes:
    """TIFF data whose tags all refer to the same `size` bytes."""
    entries = b"".join(struct.pack("<HHII", n + 2, 7, size, 8) for n in range(tags))
    return b"II*\0" + struct.pack("<I", size + 8) + bytes(size) + struct.pack("<H", tags) + entries


def segments(content: bytes) -> bytes:
    """EXIF data as APP1 segments of a JPEG file."""
    parts = [content[n : n + 60_000] for n in range(0, len(content), 60_000)]
    return b"".join(
        b"\xff\xe1" + struct.pack(">H", len(part) + 8) + b"Exif\0\0" + part for part in parts
    )


def passes(count: int) -> bytes:
    """A progressive JPEG file of a megapixel that repeats one of its passes."""
    whole = encoded(Image.new("RGB", (1000, 1000)), "JPEG", progressive=True)
    last = whole.rindex(b"\xff\xda")
    return whole[:last] + whole[last:-2] * count + whole[-2:]


JPEG, PNG = small("JPEG"), small("PNG")
HOSTILE = {
    "ppm-comment": b"P6\n#" + b"x" * (1 << 20) + b"\n2 2\n255\n" + bytes(12),
    "ppm-plain": b"P3 9999 2222 255 " + b"1 " * (17 << 20),
    "jpeg-padding": JPEG[:2] + b"\xff" * (1 << 20) + JPEG[2:],
    "jpeg-zeros": JPEG[:2] + bytes(1 << 20) + JPEG[2:],
    "jpeg-segments": JPEG[:2] + b"\xff\xfe\0\x02" * 20_000 + JPEG[2:],
    "jpeg-passes": passes(2000),
    "jpeg-exif": JPEG[:2] + segments(tag_bomb(60_000, 1 << 20)) + JPEG[2:],
    "jpeg-mpf": JPEG[:2]
    + b"\xff\xe2\xff\xf0MPF\0"
    + tag_bomb(2_500, 30_000).ljust(0xFFF0 - 6, b"\0")
    + JPEG[2:],
    "png-chunks": PNG[:33] + chunk(b"teSt", b"") * 20_000 + PNG[33:],
    "png-pieces": PNG[:33]
    + b"".join(chunk(b"IDAT", b"") for _ in range(100_000))
    + PNG[33:],
    "tiff-tags": tag_bomb(60_000, 1 << 20),
    "tiff-strips": b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHII", 273, 4, 2_000_000, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_multiply_are_refused_before_they_do(name: str) -> None:
    assert len(HOSTILE[name]) < 48 << 20
    tracemalloc.start()
    try:
        with pytest.raises(ImageError) as caught:
            decode_image(HOSTILE[name], "x.img", upright=True)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(HOSTILE[name]) + (8 << 20)
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith("x.img: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["ppm-comment", "jpeg-padding", "jpeg-exif", "png-chunks"])
def test_neither_do_they_when_only_their_size_is_wanted(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.img").write_bytes(HOSTILE[name])
    tracemalloc.start()
    with pytest.raises(ImageError, match=r"x\.img: "):
        read_size(tmp_path / "x.img")
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_sizes_are_read_from_headers(tmp_path: Path) -> None:
    for kind in ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP", "PPM"):
        (tmp_path / "x").write_bytes(small(kind))
        assert read_size(tmp_path / "x") == (7, 11)


def test_exif_data_that_multiply_are_not_followed() -> None:
    """Pillow would read each tag of them to find one."""
    bomb = PNG[:33] + chunk(b"eXIf", tag_bomb(60_000, 1 << 20)) + PNG[33:]
    tracemalloc.start()
    np.testing.assert_array_equal(decode_image(bomb, upright=True), PICTURE)
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("turn", range(10))
def test_pictures_are_turned_as_pillow_turns_them(kind: str, turn: int) -> None:
    exif = Image.Exif()
    exif[0x010F] = "a maker"
    exif[0x0112] = turn
    content = small(kind, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
    np.testing.assert_array_equal(decode_image(content, upright=True), np.asarray(expected))


def test_an_orientation_in_xmp_or_in_an_old_text_counts_too() -> None:
    assert orientation({"xmp": b'<x tiff:Orientation="6"/>'}) == 6
    assert orientation({"XML:com.adobe.xmp": "<tiff:Orientation>8</tiff:Orientation>"}) == 8
    exif = Image.Exif()
    exif[0x0112] = 3
    assert orientation({"exif": exif.tobytes()}) == 3
    text = f"\nexif\n      34\n{exif.tobytes().hex()}\n"
    assert orientation({"Raw profile type exif": text}) == 3
    assert orientation({"Raw profile type exif": "nonsense\n\n\nxyz"}) == 1
    assert orientation({"exif": b"Exif\0\0MM\0*\xff\xff\xff\xff"}) == 1


def test_integers_of_32_bits_are_read_or_refused_but_not_black() -> None:
    levels = np.array([[0, 7], [200, 255]], np.int32)
    content = encoded(Image.fromarray(levels), "TIFF")
    np.testing.assert_array_equal(decode_image(content)[..., 0], levels)
    for wrong in (256, 70_000, -1):
        content = encoded(Image.fromarray(np.array([[0, wrong]], np.int32)), "TIFF")
        with pytest.raises(ImageError, match=r"32 bits .* expected 0 to 255; convert"):
            decode_image(content)


def test_sixteen_bits_of_a_dark_picture_stay_dark() -> None:
    content = b"P5 2 1 65535 " + np.array([7, 300], ">u2").tobytes()
    assert decode_image(content)[0, :, 0].tolist() == [0, 1]


def test_a_picture_of_many_pixels_in_few_bytes_is_refused(tmp_path: Path) -> None:
    side = 6_000
    content = encoded(Image.new("L", (side, side)), "PNG")
    assert len(content) * LIMITS.pixels_per_byte < side * side
    with pytest.raises(ImageError, match=r"x: 6000 x 6000 pixels in .* bytes.*at most 12 a byte"):
        decode_image(content, "x")
    path = tmp_path / "mask.png"  # masks are flat by nature, and take two bytes a pixel at most
    path.write_bytes(content)
    assert read_indices(path).shape == (side, side)
    with pytest.raises(ImageError, match="at most 12 a byte"):
        read_image(path)


def test_a_metered_stream_counts_again_for_the_pixels() -> None:
    stream = MeteredStream(bytes(5000))
    for _ in range(100):
        stream.seek(0)
        assert len(stream.read()) == 5000
    stream.allow_pixels()

    def read_often() -> None:
        for _ in range(300):
            stream.seek(0)
            stream.read()

    with pytest.raises(ImageError, match="padded"):
        read_often()
