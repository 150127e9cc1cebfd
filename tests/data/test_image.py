import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from halfseen.data.image import as_image, read_image, read_indices, write_image
from halfseen.data.limits import Limits
from halfseen.errors import ImageError
from tests.builders import png_header

PICTURE = np.random.default_rng(0).integers(0, 256, (7, 11, 3), dtype=np.uint8)


def save(image: Image.Image, path: Path, **options: Any) -> Path:
    image.save(path, **options)
    return path


def bomb(path: Path, side: int) -> Path:
    """A well-formed PNG header of side x side pixels over a few bytes of data."""
    path.write_bytes(png_header(side, side, bytes(99), whole=False))
    return path


def test_png_reads_back_exactly(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", PICTURE)
    found = read_image(tmp_path / "a.png")
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, PICTURE)
    assert os.listdir(tmp_path) == ["a.png"]


def test_jpeg_reads_back_nearly(tmp_path: Path) -> None:
    smooth = np.full((16, 16, 3), (200, 30, 90), dtype=np.uint8)
    write_image(tmp_path / "a.jpg", smooth)
    assert np.abs(read_image(tmp_path / "a.jpg").astype(int) - smooth).max() <= 3


def test_one_pixel(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", np.array([[7]], dtype=np.uint8))
    assert read_image(tmp_path / "a.png").tolist() == [[[7, 7, 7]]]


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "YCbCr"])
def test_colour_models_become_rgb(tmp_path: Path, mode: str) -> None:
    image = Image.fromarray(np.full((4, 5, 3), 255, np.uint8)).convert(mode)
    suffix = "jpg" if mode in ("CMYK", "YCbCr") else "png"
    path = save(image, tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal(read_image(path), np.full((4, 5, 3), 255))


def test_sixteen_bits_keep_the_high_byte(tmp_path: Path) -> None:
    levels = np.array([[0, 255, 256], [0x1234, 0xFF00, 0xFFFF]], dtype=np.uint16)
    for suffix in ("png", "tif"):
        path = save(Image.fromarray(levels), tmp_path / f"a.{suffix}")
        np.testing.assert_array_equal(read_image(path)[..., 0], levels >> 8)


@pytest.mark.parametrize(("dtype", "word"), [(np.int32, "32"), (np.float32, "floating")])
def test_more_than_sixteen_bits_are_refused(tmp_path: Path, dtype: Any, word: str) -> None:
    path = save(Image.fromarray(np.full((2, 2), 1 << 20, dtype=dtype)), tmp_path / "a.tif")
    with pytest.raises(ImageError, match=rf"a\.tif.*{word}"):
        read_image(path)


def test_transparency_is_laid_over_white(tmp_path: Path) -> None:
    pixels = np.array([[[10, 20, 30, 0], [10, 20, 30, 255], [0, 0, 0, 128]]], dtype=np.uint8)
    expected = [[[255, 255, 255], [10, 20, 30], [127, 127, 127]]]
    path = save(Image.fromarray(pixels), tmp_path / "a.png")
    assert read_image(path).tolist() == expected
    assert as_image(pixels).tolist() == expected


def test_transparent_palette(tmp_path: Path) -> None:
    image = Image.fromarray(np.array([[0, 1]], dtype=np.uint8))
    image.putpalette([9, 8, 7, 1, 2, 3])
    path = save(image, tmp_path / "a.png", transparency=b"\0\xff")
    assert read_image(path).tolist() == [[[255, 255, 255], [1, 2, 3]]]


def test_animation_gives_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.fromarray(np.full((3, 4), level, np.uint8)) for level in (10, 200, 90)]
    path = save(frames[0], tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert np.unique(read_image(path)).tolist() == [10]


def test_exif_rotates_only_when_asked(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise for viewing
    path = save(Image.fromarray(PICTURE), tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(read_image(path), PICTURE)
    np.testing.assert_array_equal(read_image(path, upright=True), np.rot90(PICTURE, -1))


@pytest.mark.parametrize("upright", [False, True])
def test_odd_metadata_neither_warns_nor_costs_the_image(tmp_path: Path, upright: bool) -> None:
    odd = b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01"
    path = save(Image.fromarray(PICTURE), tmp_path / "a.jpg", exif=odd)
    assert read_image(path, upright=upright).shape == PICTURE.shape


def test_bomb_is_refused_before_decoding(tmp_path: Path) -> None:
    for side in (9_700, 15_000, 60_000):  # below, at and beyond where Pillow warns, and refuses
        with pytest.raises(ImageError, match=r"bomb\.png.*exceed"):
            read_image(bomb(tmp_path / "bomb.png", side), Limits(pixels=90_000_000))


def test_a_large_header_within_the_limits_does_not_warn(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="damaged"):
        read_image(bomb(tmp_path / "a.png", 9_700), Limits(sparse_pixels=100_000_000))


def test_file_size_is_limited(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", PICTURE)
    with pytest.raises(ImageError, match="larger than the limit of 20 bytes"):
        read_image(tmp_path / "a.png", Limits(image_bytes=20))


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "tif", "webp", "bmp"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.9])
def test_truncated_files_name_themselves(tmp_path: Path, suffix: str, share: float) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    path = save(Image.fromarray(noise), tmp_path / f"cut.{suffix}")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ImageError) as caught:
        read_image(path)
    assert f"cut.{suffix}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_an_image(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_text("hello")
    (tmp_path / "b.jpg").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    for name, words in [
        ("a.jpg", "not an image"),
        ("b.jpg", "not an image"),
        ("c.jpg", "no such file"),
        ("", "expected an image file"),
    ]:
        with pytest.raises(ImageError, match=words):
            read_image(tmp_path / name)


@settings(deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes_give_an_image_or_an_image_error(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    buffer = io.BytesIO()
    Image.fromarray(PICTURE).save(buffer, "PNG")
    path = tmp_path_factory.getbasetemp() / "any.png"
    path.write_bytes(buffer.getvalue()[:60] + content)
    with contextlib.suppress(ImageError):
        assert read_image(path).shape == PICTURE.shape


@settings(deadline=None)
@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6)))
def test_grey_arrays_are_repeated(grey: Any) -> None:
    for array in (grey, grey[:, :, None]):
        np.testing.assert_array_equal(as_image(array), np.stack([grey] * 3, axis=2))


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 5)),
        np.zeros((4, 5, 2), np.uint8),
        np.zeros((0, 5, 3), np.uint8),
        np.zeros(5, np.uint8),
        np.zeros((1, 4, 5, 3), np.uint8),
        "picture",
    ],
)
def test_other_arrays_are_refused(array: Any) -> None:
    with pytest.raises(ImageError, match=r"^image.*: expected"):
        as_image(array)


def test_masks_keep_their_indices(tmp_path: Path) -> None:
    indices = np.array([[0, 1, 255]], dtype=np.uint8)
    image = Image.fromarray(indices)
    image.putpalette([3] * 768)
    np.testing.assert_array_equal(read_indices(save(image, tmp_path / "a.png")), indices)
    write_image(tmp_path / "b.png", PICTURE)
    with pytest.raises(ImageError, match="palette or grey"):
        read_indices(tmp_path / "b.png")


def test_writing_refuses_unknown_suffixes_and_absent_folders(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"cannot write '\.xyz'"):
        write_image(tmp_path / "a.xyz", PICTURE)
    with pytest.raises(ImageError, match="cannot be written"):
        write_image(tmp_path / "absent" / "a.png", PICTURE)
    assert os.listdir(tmp_path) == []
