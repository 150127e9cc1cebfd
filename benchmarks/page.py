"""How long the page takes from the release of a cover to the drawn boxes, in headless Chromium.

A 500x375 scene and one model (VIS, shown with both kinds of suppression), served by `halfseen
serve`. A cover is dragged over the car again and again, with several moves before the release, as
a hand does; the clock runs in the page, from its `pointerup` to the frame after the answer to the
last change was drawn. Prints one line of JSON.

Needs the extra `browser`, chromium and chromedriver: `make test-browser` installs them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from halfseen.web.catalogue import model_file, scene_objects
from tests_browser.browser import Page, serving

WARM = 5
REPEATS = 60

CLOCK = """
window.times = [];
const data = document.body.dataset;
let released = null;
window.addEventListener("pointerup", () => { released = performance.now(); }, true);
new MutationObserver(() => {
  if (released === null || data.drawn !== data.version) return;
  const start = released;
  released = null;
  requestAnimationFrame(() => window.times.push(performance.now() - start));
}).observe(document.body, { attributes: true, attributeFilter: ["data-drawn"] });
"""


def measure(page: Page) -> list[float]:
    """Milliseconds of each release, after some to warm up."""
    rng = np.random.default_rng(0)
    x1, y1, x2, y2 = scene_objects(0)[0]["full"]
    page.run(CLOCK)
    for k in range(WARM + REPEATS):
        page.run("document.getElementById('clear').click()")
        page.settle()
        share = rng.uniform(0.2, 0.6)
        page.drag((x1 - 5, y1 - 5), (x1 + share * (x2 - x1), y2 + rng.uniform(-20, 10)), 6)
        page.wait_for(f"return window.times.length === {k + 1}")
    return [float(time) for time in page.run("return window.times")][WARM:]


def main() -> None:
    with serving(model_file("VIS")) as url:
        page = Page(url)
        try:
            times = measure(page)
        finally:
            page.close()
    print(
        json.dumps(
            {
                "median_ms": round(float(np.median(times)), 1),
                "p95_ms": round(float(np.percentile(times, 95)), 1),
                "releases": len(times),
                "image": "500x375",
            }
        )
    )


if __name__ == "__main__":
    main()
