"""The page in a real browser: `halfseen serve` as a process, and headless Chromium on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

DRIVER = os.environ.get("CHROMEDRIVER", "/usr/bin/chromedriver")
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@contextmanager
def serving(*models: str | Path) -> Iterator[str]:
    """The address of a server, which ends with the block."""
    command = [str(Path(sys.executable).with_name("halfseen")), "serve", "--port", "0", "--quiet"]
    process = subprocess.Popen(
        [*command, *map(str, models)], stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


class Page:
    """The page as a person meets it: looks, presses, drags."""

    def __init__(
        self, url: str, size: tuple[int, int] = (1360, 1000), features: dict[str, str] | None = None
    ) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                         "--hide-scrollbars", f"--window-size={size[0]},{size[1]}"):  # fmt: skip
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver: Any = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
        self.resize(*size)
        if features:
            media = [{"name": name, "value": value} for name, value in features.items()]
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        self.url = url
        self.driver.get(url)
        self.settle()

    def close(self) -> None:
        self.driver.quit()

    def resize(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def settle(self, seconds: float = 120) -> None:
        """Waits until what is drawn is the answer to the last change."""
        self.wait_for(
            "const d = document.body.dataset;"
            "const message = document.getElementById('message');"
            "if (d.drawn !== d.version && !message.hidden) throw new Error(message.textContent);"
            "return d.drawn && d.drawn === d.version",
            seconds,
        )

    def wait_for(self, script: str, seconds: float = 120) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"did not come about in {seconds} s: {script}")

    def find(self, selector: str) -> WebElement:
        found: WebElement = self.driver.find_element(By.CSS_SELECTOR, selector)
        return found

    def text(self, selector: str) -> str:
        return str(self.find(selector).text)

    def scene(self, number: int) -> None:
        """Chooses a scene, and waits for its answers."""
        version = self.run("return document.body.dataset.version")
        self.find(f"#scenes button:nth-child({number + 1})").click()
        self.wait_for(f"return document.body.dataset.version !== '{version}'")
        self.settle()

    def card(self, method: str) -> dict[str, Any]:
        """What a method's card says of the followed object."""
        data = self.run("return {...document.querySelector(arguments[0]).dataset}",
                        f'.card[data-method="{method}"]')  # fmt: skip
        return {
            "score": float(data["score"]) if data["score"] else None,
            "reported": data["reported"] == "true",
            "seen": float(data["seen"]) if data["seen"] else None,
        }

    def drag(self, start: Sequence[float], end: Sequence[float], steps: int = 4) -> None:
        """Presses at one point of the picture, moves to another, and releases."""
        stage = self.find("#stage")
        self.run("arguments[0].scrollIntoView({block: 'center'})", stage)
        width, height = self.run(
            "const p = window.__size ?? [500, 375];"
            "const r = arguments[0].getBoundingClientRect();"
            "return [r.width / p[0], r.height / p[1]]",
            stage,
        )
        size = stage.size

        def at(point: Sequence[float]) -> tuple[int, int]:
            return (
                round(point[0] * width - size["width"] / 2),
                round(point[1] * height - size["height"] / 2),
            )

        actions = ActionChains(self.driver, duration=20)
        actions.move_to_element_with_offset(stage, *at(start)).click_and_hold()
        for k in range(1, steps + 1):
            point = [a + (b - a) * k / steps for a, b in zip(start, end, strict=True)]
            actions.move_to_element_with_offset(stage, *at(point))
        actions.release().perform()

    def slide(self, name: str, value: float) -> None:
        """Moves a slider, and waits for the answer."""
        self.run(
            "const s = document.getElementById('slider-' + arguments[0]); s.value = arguments[1];"
            "s.dispatchEvent(new Event('input'))",
            name,
            value,
        )
        self.settle()

    def saved_json(self) -> dict[str, Any]:
        """What the button downloads."""
        self.run(
            "window.saved = null;"
            "URL.createObjectURL = (b) => { b.text().then((t) => window.saved = t); return '#'; };"
        )
        self.find("#save-json").click()
        return dict(json.loads(self.wait_for("return window.saved")))

    def errors(self) -> list[str]:
        """What the browser complained of."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def screenshot(self, path: Path) -> None:
        """As a PNG of moderate size: 256 colours are enough."""
        import io

        from PIL import Image

        image = Image.open(io.BytesIO(self.driver.get_screenshot_as_png())).convert("RGB")
        path.parent.mkdir(parents=True, exist_ok=True)
        image.quantize(256, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)
