"""The page in headless Chromium: cover an object, and see which methods still find it."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import halfseen as hs
from halfseen.data.image import as_image
from halfseen.data.scenes import render_scene
from halfseen.web.catalogue import scene_objects, scene_pixels
from tests_browser.browser import Page, serving

PICTURES = os.environ.get("SCREENSHOTS")
SCENE = 0


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(scope="session")
def browser(url: str) -> Iterator[Page]:
    opened = Page(url)
    yield opened
    opened.close()


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    """The page as first loaded; afterwards the browser must have nothing to complain of."""
    browser.driver.get(browser.url)
    browser.settle()
    browser.scene(SCENE)
    yield browser
    wrong = [line for line in browser.errors() if "api/photo" not in line]
    assert wrong == []


def keep(page: Page, name: str) -> None:
    """Screenshots for the documentation, where they are asked for."""
    if PICTURES:
        page.run("window.scrollTo(0, 0)")
        page.screenshot(Path(PICTURES, f"{name}.png"))


def cover(page: Page, share: float = 0.45) -> tuple[float, float, float, float]:
    """Drags a cover over the left part of the car; returns it."""
    x1, y1, x2, y2 = scene_objects(SCENE)[0]["full"]
    area = (max(1, x1 - 5), y1 - 5, x1 + share * (x2 - x1), y2 + 5)
    page.drag(area[:2], area[2:])
    page.settle()
    return area


def hidden_share(detection: dict[str, Any], area: tuple[float, ...]) -> tuple[float, float]:
    """The hidden share of the object's blocks that lie under the cover, and of its others."""
    x1, y1, x2, y2 = detection["window"]
    flags = np.array([[block in "og" for block in row] for row in detection["blocks"]])
    rows, cols = flags.shape
    y = y1 + (np.arange(rows) + 0.5) * (y2 - y1) / rows
    x = x1 + (np.arange(cols) + 0.5) * (x2 - x1) / cols
    fx1, fy1, fx2, fy2 = detection["full"]
    own = ((y > fy1) & (y < fy2))[:, None] & (x > fx1) & (x < fx2)
    under = ((y > area[1]) & (y < area[3]))[:, None] & (x > area[0]) & (x < area[2])
    return 1 - flags[under & own].mean(), 1 - flags[~under & own].mean()


def test_a_covered_object_is_lost_by_bl_and_still_seen_by_vis(page: Page) -> None:
    before = {name: page.card(name) for name in ("BL", "BLT", "VIS", "VIS+NMS")}
    assert all(card["reported"] for card in before.values())
    assert "every method finds it" in page.text("#story")
    assert "You have covered nothing" in page.text("#story")
    area = cover(page)
    after = {name: page.card(name) for name in before}
    assert after["BL"]["score"] < before["BL"]["score"] - 0.3
    assert after["VIS"]["reported"]
    assert after["VIS+NMS"]["reported"]
    fall = {name: before[name]["score"] - after[name]["score"] for name in before}
    assert fall["VIS"] < fall["BL"]
    assert "covered" in page.text("#story")
    methods = {m["method"]: m for m in page.saved_json()["methods"]}
    under, elsewhere = hidden_share(methods["VIS"]["watched"], area)
    assert under > 0.5
    assert under > elsewhere + 0.3
    assert set("".join(methods["BL"]["watched"]["blocks"])) == {"o"}
    keep(page, "page-covered")
    page.find("#clear").click()
    page.settle()
    assert {name: page.card(name) for name in before} == before


def test_a_cover_can_be_moved_painted_and_erased(page: Page) -> None:
    clean = page.card("BL")["score"]
    area = cover(page)
    covered = page.card("BL")["score"]
    middle = ((area[0] + area[2]) / 2, (area[1] + area[3]) / 2)
    page.drag(middle, (middle[0], 5))  # up into the sky
    page.settle()
    assert page.card("BL")["score"] > covered
    page.find("#clear").click()
    page.find("input[value=paint] + span").click()
    for across in (25, 50):
        page.drag((area[0] + across, area[1] + 20), (area[0] + across, area[3] - 20))
    page.settle()
    assert 15 < int(page.run("return document.body.dataset.covered")) < 60
    assert page.card("BL")["score"] != clean
    page.find("input[value=erase] + span").click()
    for across in (10, 25, 50, 65):
        page.drag((area[0] + across, area[1] - 20), (area[0] + across, area[3] + 20))
    page.settle()
    assert page.run("return document.body.dataset.covered") == "0"
    assert page.card("BL")["score"] == pytest.approx(clean, abs=0.2)


def drop(page: Page, name: str, content: bytes) -> None:
    page.run(
        "const bytes = Uint8Array.from(atob(arguments[1]), (c) => c.charCodeAt(0));"
        "const data = new DataTransfer(); data.items.add(new File([bytes], arguments[0]));"
        "window.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true,"
        " cancelable: true}))",
        name,
        base64.b64encode(content).decode(),
    )


def photo(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def field() -> np.ndarray:
    """Four horses in a field, as a photograph would show them: drawn, and cut to another size."""
    return as_image(render_scene(31, 4).truth.source)[:320]


def drop_photo(page: Page, pixels: np.ndarray) -> None:
    """Drops a photograph in, as a JPEG, and waits for its classes and their answers."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=90)
    drop(page, "photo.jpg", buffer.getvalue())
    height, width = pixels.shape[:2]
    page.wait_for(
        f"return document.getElementById('frame').style.aspectRatio === '{width} / {height}'"
    )
    page.settle()


def cover_watched(page: Page, size: tuple[int, int], share: float = 0.5) -> None:
    """Drags a cover over the left part of what is followed in a photograph."""
    x1, y1, x2, y2 = page.saved_json()["watched"]
    page.run("window.__size = arguments[0]", list(size))
    left, top = max(2, x1), max(2, y1)
    page.drag((left, top), (left + share * (x2 - left), min(size[1] - 2, y2)))
    page.run("window.__size = undefined")
    page.settle()


def test_a_photo_shows_the_classes_found_and_is_covered_as_a_scene_is(
    page: Page, field: np.ndarray
) -> None:
    drop_photo(page, field)
    chips = page.driver.find_elements(By.CSS_SELECTOR, "#classes button")
    assert chips[0].text.startswith("horse")  # the best models of all classes, the surest first
    assert chips[0].get_attribute("aria-checked") == "true"
    assert "horse" in page.text("#found")
    assert not page.find("#message").is_displayed()
    assert page.run("return document.querySelector('#scenes [aria-checked=true]')") is None
    before = {name: page.card(name) for name in ("Rigid", "VIS", "VIS+NMS")}
    assert before["VIS"]["reported"]
    cover_watched(page, (500, 320))
    after = {name: page.card(name) for name in before}
    assert 30 < int(page.run("return document.body.dataset.covered")) < 70
    assert all(after[name]["score"] < before[name]["score"] - 0.3 for name in before)
    page.find("#clear").click()
    page.settle()
    assert {name: page.card(name) for name in before} == before
    if len(chips) > 1:
        chips[1].click()
        page.settle()
        assert chips[1].get_attribute("aria-checked") == "true"
        assert chips[1].text.split()[0] in page.text("#story")
        assert page.card("VIS")["reported"]
    page.scene(SCENE)
    assert not page.find("#classes").is_displayed()
    assert page.card("BL")["reported"]  # the models of the scenes again


def test_what_is_less_probable_in_a_photo_is_a_hairline(page: Page, field: np.ndarray) -> None:
    drop_photo(page, field)
    page.slide("threshold", -1)
    listed = page.run(
        "return import('/state.js')"
        ".then(({ report }) => report().detections.map((d) => d.probability))"
    )
    sure = sum(probability >= 0.5 for probability in listed)
    assert 0 < sure < len(listed)
    assert int(page.run("return document.getElementById('stage').dataset.detections")) == sure


def test_no_class_in_a_photo_is_no_error(page: Page) -> None:
    drop_photo(page, np.full((64, 64, 3), 90, np.uint8))
    assert "No class is found" in page.text("#story")
    assert not page.find("#classes").is_displayed()


def test_a_model_of_ones_own_opens_without_calling_a_drawn_car_lost(tmp_path: Path) -> None:
    file = tmp_path / "own.safetensors"
    hs.save(replace(hs.load("sofa.fast"), label="mug"), file)
    with serving(file) as address:
        own = Page(address)
        try:
            assert "lost" not in own.text("#cards")
            assert "No mug is found in this drawn scene" in own.text("#story")
            drop_photo(own, scene_pixels(SCENE)[:200])
            assert "car" not in own.text("#classes")
        finally:
            own.close()


def test_a_cover_beside_what_is_called_hidden_is_told_from_one_over_it(page: Page) -> None:
    """The picture, the inspector and the sentence speak of the same blocks."""
    area = cover(page, 0.45)
    assert "and where" in page.text("#story")
    page.find("#clear").click()
    x = area[0] + 0.9 * (area[2] - area[0])
    page.drag((x, area[1] + 10), (x + 7, area[1] + 17))  # next to nothing
    page.settle()
    message = page.text("#story")
    assert "and where" not in message
    assert "nothing for hidden" in message or "not under your cover" in message


def test_targets_can_be_hit_with_a_thumb(page: Page, field: np.ndarray) -> None:
    drop_photo(page, field)
    page.find("#found button").click()
    page.wait_for("return !document.getElementById('inspector').hidden")
    small = page.run(
        "return [...document.querySelectorAll('button, select, .button, input[type=range],"
        " .group span')].filter((e) => e.offsetParent).map((e) => [e.textContent || e.id,"
        " e.getBoundingClientRect()]).filter(([n, r]) => Math.min(r.width, r.height) < 44)"
        ".map(([n]) => n)"
    )
    assert small == []


def test_the_strip_of_scenes_shows_that_it_scrolls(page: Page) -> None:
    assert (
        page.run("return getComputedStyle(document.getElementById('scenes')).maskImage") != "none"
    )
    page.run("const s = document.getElementById('scenes'); s.scrollLeft = s.scrollWidth")
    page.wait_for("return !document.getElementById('scenes').classList.contains('more')", 5)
    assert page.run("return document.getElementById('scenes').classList.contains('before')")


def test_a_photo_is_chosen_by_the_button(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "wide.png"
    file.write_bytes(photo(np.full((100, 400, 3), 90, np.uint8)))
    page.find("#photo").send_keys(str(file))
    page.wait_for("return document.getElementById('frame').style.aspectRatio === '400 / 100'")
    page.settle()
    assert "No class is found" in page.text("#story")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("notes.txt", b"not a picture at all", "not an image"),
        ("cut.png", photo(np.zeros((50, 50, 3), np.uint8))[:60], "damaged"),
        ("empty.jpg", b"", "empty"),
    ],
)
def test_a_bad_file_shows_a_message(page: Page, name: str, content: bytes, says: str) -> None:
    before = page.card("VIS")
    drop(page, name, content)
    page.wait_for("return !document.getElementById('message').hidden")
    assert page.text("#message").startswith(f"{name}: ")
    assert says in page.text("#message")
    assert page.card("VIS") == before
    page.scene(1)
    assert not page.find("#message").is_displayed()


def test_a_file_over_the_limit_is_not_even_sent(page: Page) -> None:
    page.run(
        "const file = new File([new Uint8Array(21 << 20)], 'large.png');"
        "const data = new DataTransfer(); data.items.add(file);"
        "window.dispatchEvent(new DragEvent('drop', {dataTransfer: data, cancelable: true}))"
    )
    page.wait_for("return !document.getElementById('message').hidden")
    assert "limit of 20 MiB" in page.text("#message")


def test_sliders_change_the_result(page: Page) -> None:
    cover(page)
    start = page.card("VIS")
    page.slide("shift", 0.05)
    assert page.card("VIS")["seen"] < start["seen"]
    assert page.card("VIS")["score"] > start["score"]
    page.slide("shift", -0.05)
    assert page.card("VIS")["seen"] > start["seen"]
    page.find("#reset").click()
    page.settle()
    assert page.card("VIS") == start
    page.slide("alpha", 0.3)
    assert page.card("VIS")["score"] < start["score"]
    page.find("#reset").click()
    page.slide("threshold", 1.5)
    assert not any(page.card(name)["reported"] for name in ("BL", "BLT", "VIS", "VIS+NMS"))
    assert page.text("#found") == "None reaches the threshold."
    page.slide("threshold", -0.6)
    counts = []
    for overlap in (0, 1):
        page.slide("overlap", overlap)
        counts.append([len(m["detections"]) for m in page.saved_json()["methods"]])
    assert counts[0][0] < counts[1][0]
    assert counts[0][3] < counts[1][3]


def test_a_detection_is_taken_apart(page: Page) -> None:
    cover(page)
    page.slide("threshold", -0.3)
    first = page.find("#found button")
    score = first.text.split()[0]
    first.click()
    page.wait_for("return !document.getElementById('inspector').hidden"
                  " && document.querySelector('#sum .total td')")  # fmt: skip
    parts = [
        float(cell.replace("\N{MINUS SIGN}", "-"))
        for cell in page.run(
            "return [...document.querySelectorAll('#sum td')].map(c => c.innerText)"
        )
    ]
    assert sum(parts[:-1]) == pytest.approx(parts[-1], abs=0.004)
    assert parts[-1] == pytest.approx(float(score), abs=0.006)
    assert page.run("return document.getElementById('response-view').width") > 100
    neighbours = page.run("return document.querySelectorAll('#neighbours button').length")
    assert neighbours > 0
    assert "above η" in page.text("#neighbours")
    if PICTURES:
        page.resize(1360, 1700)
        keep(page, "page-inspector")
        page.resize(1360, 1000)


def test_the_keyboard_is_enough(page: Page) -> None:
    clean = page.card("BL")["score"]
    stage = page.find("#stage")
    stage.send_keys("c")
    page.settle()
    covered = page.card("BL")["score"]
    assert covered < clean
    for _ in range(20):
        stage.send_keys(Keys.ARROW_UP)
    page.settle()
    assert page.card("BL")["score"] > covered
    stage.send_keys(Keys.DELETE)
    page.settle()
    assert page.card("BL")["score"] == clean
    stage.send_keys("1")
    assert page.text("#found-method") == "BL"
    assert page.find('[data-method="BL"]').get_attribute("aria-checked") == "true"
    stage.send_keys("4")
    assert page.text("#found-method") == "VIS+NMS"


def test_it_shows_itself(page: Page) -> None:
    before = page.card("BL")["score"]
    page.find("#show").click()
    page.wait_for("return document.getElementById('show').textContent.includes('Show')", 30)
    page.settle()
    assert 30 < int(page.run("return document.body.dataset.covered")) < 60
    assert page.card("BL")["score"] < before


def test_nothing_is_asked_of_other_machines(page: Page) -> None:
    names = page.run("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert names
    assert all(name.startswith((page.url, "data:")) for name in names)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone_in_either_theme(url: str, theme: str, field: np.ndarray) -> None:
    phone = Page(url, (390, 844), {"prefers-color-scheme": theme})
    try:
        cover(phone)
        assert phone.run("return document.documentElement.scrollWidth") <= 390
        assert phone.run("return document.getElementById('stage').clientWidth") > 340
        paper = phone.run("return getComputedStyle(document.body).backgroundColor")
        assert (min(int(v) for v in paper[4:-1].split(",")) > 128) == (theme == "light")
        assert phone.card("VIS")["score"] is not None
        drop_photo(phone, field)
        assert phone.run("return document.documentElement.scrollWidth") <= 390
        assert phone.find("#classes button").is_displayed()
        chip = phone.run(
            "const s = getComputedStyle(document.querySelector('#classes [aria-checked=true]'));"
            "return [s.color, s.backgroundColor]"
        )
        tones = [sum(int(v) for v in tone[4:-1].split(",")) for tone in chip]
        assert abs(tones[0] - tones[1]) > 250  # legible
    finally:
        phone.close()
