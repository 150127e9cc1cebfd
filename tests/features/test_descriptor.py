"""The descriptors against scikit-image and against slow implementations written from their text."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from skimage.feature import hog as skimage_hog

from halfseen.errors import ModelError
from halfseen.features.descriptor import Descriptor, make_descriptor
from halfseen.features.fhog import Fhog
from halfseen.features.hog import Hog

DESCRIPTORS: list[Descriptor] = [
    Hog(),
    Hog(interpolate=False, border=False),
    Hog(cell=5, bins=6, border=False),
    Fhog(),
    Fhog(cell=5),
]


def noise(seed: int, channels: int, height: int, width: int) -> NDArray[np.float32]:
    """Whole numbers, so that no gradient lies on a bin's border by rounding alone."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (channels, height, width)).astype(np.float32)


def ramp(degrees: float, height: int = 60, width: int = 72) -> NDArray[np.float32]:
    """A grey level whose gradient points at this angle (x right, y down) and is 4 a pixel."""
    y, x = np.mgrid[:height, :width]
    angle = math.radians(degrees)
    level: NDArray[np.float64] = 2 * (math.cos(angle) * x + math.sin(angle) * y)
    return level[None].astype(np.float32)


def gradients(level: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(dx, dy) of the channel with the strongest gradient; one-sided at the border."""
    padded = np.pad(level.astype(np.float64), ((0, 0), (1, 1), (1, 1)), mode="edge")
    dx = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]
    dy = padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    strongest = np.argmax(dx**2 + dy**2, axis=0)[None]
    return np.take_along_axis(dx, strongest, 0)[0], np.take_along_axis(dy, strongest, 0)[0]


def shares(position: float, cell: int) -> list[tuple[int, float]]:
    """The two cells whose centres enclose a pixel's centre, each with its linear share."""
    place = (position + 0.5) / cell - 0.5
    first = math.floor(place)
    return [(first, 1 - (place - first)), (first + 1, place - first)]


def slow_hog(level: NDArray[np.float32], cell: int, bins: int, clip: float) -> NDArray[np.float64]:
    """Dalal and Triggs' blocks with every vote shared over two bins and four cells."""
    dx, dy = gradients(level)
    rows, cols = level.shape[1] // cell, level.shape[2] // cell
    hist = np.zeros((rows, cols, bins))
    for y in range(rows * cell):
        for x in range(cols * cell):
            angle = math.atan2(dy[y, x], dx[y, x]) % math.pi
            place = angle / (math.pi / bins) - 0.5
            low = math.floor(place)
            for r, share_y in shares(y, cell):
                for c, share_x in shares(x, cell):
                    if 0 <= r < rows and 0 <= c < cols:
                        vote = math.hypot(dx[y, x], dy[y, x]) * share_y * share_x
                        hist[r, c, low % bins] += vote * (1 - (place - low))
                        hist[r, c, (low + 1) % bins] += vote * (place - low)
    blocks = np.empty((rows - 1, cols - 1, 4 * bins))
    for r in range(rows - 1):
        for c in range(cols - 1):
            block = hist[r : r + 2, c : c + 2].ravel()
            block = np.minimum(block / math.sqrt(block @ block + 1e-4), clip)
            blocks[r, c] = block / math.sqrt(block @ block + 1e-4)
    return blocks


def slow_fhog(level: NDArray[np.float32], cell: int, clip: float) -> NDArray[np.float64]:
    """Felzenszwalb's 31 channels with whole border cells, written pixel by pixel."""
    dx, dy = gradients(level)
    _, height, width = level.shape
    rows, cols = math.ceil(height / cell), math.ceil(width / cell)
    hist = np.zeros((rows, cols, 18))
    for y in range(height):
        for x in range(width):
            # Level gradients lie between two bins; they go to the one that points down.
            angle = math.atan2(dy[y, x] + 1e-4, dx[y, x]) % (2 * math.pi)
            k = int(angle / (math.pi / 9)) % 18
            for r, share_y in shares(y, cell):
                for c, share_x in shares(x, cell):
                    if 0 <= r < rows and 0 <= c < cols:
                        hist[r, c, k] += math.hypot(dx[y, x], dy[y, x]) * share_y * share_x
    unsigned = hist[..., :9] + hist[..., 9:]
    energy = np.pad((unsigned**2).sum(-1), 1, mode="edge")
    out = np.empty((rows, cols, 31))
    for r in range(rows):
        for c in range(cols):
            scaled, sums = [], []
            for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
                norm = math.sqrt(energy[r + i : r + i + 2, c + j : c + j + 2].sum() + 1e-4)
                scaled.append(np.minimum(hist[r, c] / norm, clip))
                sums.append(np.minimum(unsigned[r, c] / norm, clip))
            out[r, c, :18] = 0.5 * np.sum(scaled, axis=0)
            out[r, c, 18:27] = 0.5 * np.sum(sums, axis=0)
            out[r, c, 27:] = np.sum(scaled, axis=1) / math.sqrt(18)
    return out


@pytest.mark.parametrize(("cell", "size"), [(6, (66, 84)), (8, (70, 83)), (5, (41, 52))])
def test_hog_without_interpolation_is_that_of_scikit_image(
    cell: int, size: tuple[int, int]
) -> None:
    """Blocks with a border cell differ by definition: scikit-image sets gradients there to 0.

    Its epsilon is 1e-5, ours 0.01: in the second normalisation, of numbers below 0.2, that shows as
    one part in 10,000.
    """
    level = noise(1, 1, *size)
    ours = Hog(cell=cell, interpolate=False, border=False)(level)
    theirs = skimage_hog(
        level[0].astype(np.float64), orientations=9, pixels_per_cell=(cell, cell),
        cells_per_block=(2, 2), block_norm="L2-Hys", feature_vector=False,
    )  # fmt: skip
    theirs = theirs.reshape(*theirs.shape[:2], 36)
    assert ours.shape == theirs.shape
    inner = (slice(1, -1), slice(1, -1))
    if size[0] % cell and size[1] % cell:
        # What is left beyond the last whole cell gives its pixels their neighbours.
        inner = (slice(1, None), slice(1, None))
    np.testing.assert_allclose(ours[inner], theirs[inner], rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("cell", "bins", "size"), [(6, 9, (36, 48)), (8, 9, (37, 44)), (5, 6, (24, 33)), (2, 4, (9, 7))]
)
def test_hog_is_the_slow_one(channels: int, cell: int, bins: int, size: tuple[int, int]) -> None:
    level = noise(2, channels, *size)
    plain = Hog(cell=cell, bins=bins, border=False)
    fast = plain(level)
    assert fast.dtype == np.float32
    assert fast.shape == (*plain.grid(*size), 4 * bins)
    np.testing.assert_allclose(fast, slow_hog(level, cell, bins, 0.2), atol=2e-5)


@pytest.mark.parametrize("cell", [6, 8])
@pytest.mark.parametrize("size", [(36, 48), (37, 44), (3, 7)])
def test_the_border_of_hog_is_repeated_pixels(cell: int, size: tuple[int, int]) -> None:
    level = noise(2, 3, *size)
    rows, cols = Hog(cell=cell).grid(*size)
    assert (rows - 1) * cell < size[0] <= rows * cell
    assert (cols - 1) * cell < size[1] <= cols * cell
    y = np.clip(np.arange((rows + 1) * cell) - cell // 2, 0, size[0] - 1)
    x = np.clip(np.arange((cols + 1) * cell) - cell // 2, 0, size[1] - 1)
    blocks = Hog(cell=cell)(level)
    assert blocks.shape == (rows, cols, 36)
    np.testing.assert_allclose(blocks, slow_hog(level[:, y][:, :, x], cell, 9, 0.2), atol=2e-5)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("cell", "size"), [(8, (40, 48)), (8, (37, 45)), (5, (24, 33)), (4, (4, 4)), (6, (5, 1))]
)
def test_fhog_is_the_slow_one(channels: int, cell: int, size: tuple[int, int]) -> None:
    level = noise(3, channels, *size)
    fast = Fhog(cell=cell)(level)
    assert fast.dtype == np.float32
    assert fast.shape == (*Fhog(cell=cell).grid(*size), 31)
    np.testing.assert_allclose(fast, slow_fhog(level, cell, 0.2), atol=2e-5)


@pytest.mark.parametrize("k", range(9))
def test_a_ramp_at_the_middle_of_a_bin_votes_for_it_alone(k: int) -> None:
    level = ramp(20 * k + 10)
    for hog in (Hog(), Hog(interpolate=False)):
        cells = hog(level)[2, 3].reshape(4, 9)
        np.testing.assert_allclose(cells[:, k], 0.2 / math.sqrt(4 * 0.2**2 + 1e-4), atol=1e-5)
        assert np.delete(cells, k, axis=1).max() < 1e-4
    block = Fhog(cell=6)(level)[4, 5]
    assert set(np.flatnonzero(block[:27] > 1e-6)) == {k, 18 + k}
    opposite = Fhog(cell=6)(-level)[4, 5]
    assert set(np.flatnonzero(opposite[:27] > 1e-6)) == {k + 9, 18 + k}
    np.testing.assert_allclose(block[[k, 18 + k]], 4 * 0.5 * 0.2, atol=1e-6)
    np.testing.assert_allclose(block[27:], 0.2 / math.sqrt(18), atol=1e-6)


@pytest.mark.parametrize(
    ("degrees", "bins"), [(20, (0, 1)), (65, (2, 3)), (0, (8, 0)), (175, (8, 0))]
)
def test_a_ramp_between_two_bins_is_shared_between_them(
    degrees: float, bins: tuple[int, int]
) -> None:
    cells = Hog(clip=1.0)(ramp(degrees))[2, 3].reshape(4, 9)[0]
    low, high = bins
    part = (degrees / 20 - 0.5) % 1
    assert cells[high] / (cells[low] + cells[high]) == pytest.approx(part, abs=1e-4)
    assert np.delete(cells, [low, high]).max() < 1e-4


def test_an_upright_edge_of_either_sign_has_mirrored_bins() -> None:
    """A level gradient lies between bins 0 and 17 or 8 and 9 of fhog: it takes 0 and 8."""
    right, left = (Fhog()(ramp(angle))[3, 3] for angle in (0, 180))
    assert set(np.flatnonzero(right[:18])) == {0}
    assert set(np.flatnonzero(left[:18])) == {8}


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=repr)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_flipped_level_has_mirrored_features(descriptor: Descriptor, channels: int) -> None:
    level = noise(4, channels, 6 * descriptor.cell, 9 * descriptor.cell)
    flipped = np.ascontiguousarray(level[..., ::-1])
    if isinstance(descriptor, Hog) and not descriptor.interpolate:
        # Hard bins take a level gradient to bin 0 on either side; a tilt leaves none.
        tilt = np.arange(level.shape[1], dtype=np.float32)[:, None] / 64
        level, flipped = (level + tilt).astype(np.float32), (flipped + tilt).astype(np.float32)
    features = descriptor(level)
    mirrored = features[:, ::-1][..., descriptor.mirror]
    np.testing.assert_allclose(descriptor(flipped), mirrored, atol=1e-5)
    assert np.abs(features - mirrored).max() > 0.05
    np.testing.assert_array_equal(
        descriptor.mirror[descriptor.mirror], np.arange(descriptor.channels)
    )


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=repr)
def test_brightness_and_contrast_do_not_matter(descriptor: Descriptor) -> None:
    level = np.floor(noise(5, 3, 48, 60) / 4)
    features = descriptor(level)
    np.testing.assert_allclose(descriptor(level + 100), features, atol=1e-6)
    np.testing.assert_allclose(descriptor(level * 3), features, atol=1e-4)


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=repr)
def test_a_flat_level_has_no_features(descriptor: Descriptor) -> None:
    features = descriptor(np.full((3, 40, 40), 77, np.float32))
    assert features.size > 0
    assert not features.any()


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=repr)
def test_a_shift_by_a_cell_shifts_the_blocks(descriptor: Descriptor) -> None:
    cell = descriptor.cell
    level = noise(6, 3, 9 * cell, 9 * cell)
    moved = np.ascontiguousarray(level[:, cell:, 2 * cell :])
    features, shifted = descriptor(level), descriptor(moved)
    # The outermost blocks see the border.
    np.testing.assert_allclose(shifted[2:, 2:], features[3:, 4:], atol=1e-5)


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=repr)
def test_grid_is_the_shape_of_the_features(descriptor: Descriptor) -> None:
    assert isinstance(descriptor, Descriptor)
    for height in range(1, 4 * descriptor.cell, 3):
        for width in (1, 2, descriptor.cell, 2 * descriptor.cell, 31):
            features = descriptor(noise(7, 1, height, width))
            assert features.shape == (*descriptor.grid(height, width), descriptor.channels)
            assert np.isfinite(features).all()


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=repr)
def test_a_descriptor_is_made_again_from_its_name_and_options(descriptor: Descriptor) -> None:
    assert make_descriptor(descriptor.name, **descriptor.options()) == descriptor


def test_a_descriptor_that_is_unknown_or_out_of_range_is_named() -> None:
    with pytest.raises(ModelError, match=r"unknown descriptor 'sift'; known: .*fhog, hog"):
        make_descriptor("sift")
    with pytest.raises(ModelError, match=r"cell must be 2\.\.64"):
        Hog(cell=1)
    with pytest.raises(ModelError, match="cell must be even"):
        Hog(cell=5)
    with pytest.raises(ModelError, match=r"cell must be 2\.\.64"):
        Fhog(cell=100)


def test_grey_pictures_stored_as_colour_have_the_same_features() -> None:
    grey = noise(8, 1, 48, 48)
    for descriptor in DESCRIPTORS:
        np.testing.assert_array_equal(descriptor(np.repeat(grey, 3, 0)), descriptor(grey))
