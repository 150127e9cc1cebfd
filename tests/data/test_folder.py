import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from halfseen.collection.sources import find_photos
from halfseen.errors import ImageError


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("b.jpg", "a.PNG", "notes.md", ".hidden.jpg", "deep/er/c.jpeg", "deep/d.tif"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return tmp_path


def list_images(words: Sequence[Path | str]) -> list[Path]:
    return [Path(photo.place) for photo in find_photos([str(word) for word in words])]


def names(files: list[Path], root: Path) -> list[str]:
    return [file.relative_to(root).as_posix() for file in files]


def test_a_folder_gives_all_images_below_it_sorted(photos: Path) -> None:
    expected = ["a.PNG", "b.jpg", "deep/d.tif", "deep/er/c.jpeg"]
    assert names(list_images([str(photos)]), photos) == expected


def test_globs(photos: Path) -> None:
    assert names(list_images([f"{photos}/*.jpg"]), photos) == ["b.jpg"]
    assert names(list_images([f"{photos}/**/*.jp*"]), photos) == ["b.jpg", "deep/er/c.jpeg"]
    everything = names(list_images([f"{photos}/*"]), photos)
    assert everything == ["a.PNG", "b.jpg", "deep/d.tif", "deep/er/c.jpeg"]


def test_files_come_once_and_in_the_order_of_the_words(photos: Path) -> None:
    found = list_images([photos / "notes.md", photos / "b.jpg", photos])
    expected = ["notes.md", "b.jpg", "a.PNG", "deep/d.tif", "deep/er/c.jpeg"]
    assert names(found, photos) == expected


def test_a_name_with_brackets_is_a_file_first(tmp_path: Path) -> None:
    (tmp_path / "a[1].jpg").touch()
    assert list_images([tmp_path / "a[1].jpg"]) == [tmp_path / "a[1].jpg"]


def test_links_to_parents_do_not_loop(photos: Path) -> None:
    os.symlink(photos, photos / "deep" / "loop")
    assert len(list_images([photos])) == 4


def test_nothing_found_says_what_was_looked_for(tmp_path: Path) -> None:
    for pattern, words in [
        (f"{tmp_path}", r"no image in this folder; looked for \*\.jpg"),
        (f"{tmp_path}/*.jpg", "no image matches"),
        (f"{tmp_path}/absent", "no such file or folder"),
    ]:
        with pytest.raises(ImageError, match=words):
            list_images([pattern])
    with pytest.raises(ImageError, match="at least one"):
        list_images([])


def test_an_empty_word_is_not_the_current_folder() -> None:
    with pytest.raises(ImageError, match="an empty text names no image"):
        list_images([""])
