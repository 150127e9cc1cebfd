"""The page in headless Chromium: cover an object, and see which methods still find it."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from selenium.webdriver.common.keys import Keys

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
    keep(page, "page-uncovered")
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


def test_a_photo_is_dropped_in(page: Page) -> None:
    drop(page, "street.png", photo(scene_pixels(SCENE)[:, ::-1][:320]))
    page.wait_for("return document.getElementById('frame').style.aspectRatio === '500 / 320'")
    page.settle()
    assert page.card("VIS")["reported"]  # the best object that was found is followed
    assert not page.find("#message").is_displayed()
    assert page.run("return document.querySelector('#scenes [aria-checked=true]')") is None


def test_a_photo_is_chosen_by_the_button(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "wide.png"
    file.write_bytes(photo(np.full((100, 400, 3), 90, np.uint8)))
    page.find("#photo").send_keys(str(file))
    page.wait_for("return document.getElementById('frame').style.aspectRatio === '400 / 100'")
    page.settle()
    assert "No car is found" in page.text("#story")


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
    keep(page, "page-bad-file")
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
def test_it_fits_a_phone_in_either_theme(url: str, theme: str) -> None:
    phone = Page(url, (390, 844), {"prefers-color-scheme": theme})
    try:
        cover(phone)
        assert phone.run("return document.documentElement.scrollWidth") <= 390
        assert phone.run("return document.getElementById('stage').clientWidth") > 340
        paper = phone.run("return getComputedStyle(document.body).backgroundColor")
        assert (min(int(v) for v in paper[4:-1].split(",")) > 128) == (theme == "light")
        assert phone.card("VIS")["score"] is not None
        keep(phone, f"page-phone-{theme}")
        if theme == "dark":
            phone.resize(1360, 1000)
            phone.settle()
            keep(phone, "page-dark")
    finally:
        phone.close()
