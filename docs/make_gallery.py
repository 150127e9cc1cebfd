"""Makes the gallery's pictures from built-in scenes: `python docs/make_gallery.py`.

pictures/gallery-visibility.jpg   what BL and VIS make of partly hidden cars (the paper's figure 6)
pictures/gallery-suppression.jpg  cars that covering suppression keeps and greedy drops (figure 7)

The models are those of the page, learnt from other scenes. The scenes are the first of a fixed seed
in which an object tells the story; `--show` lists them with the scores.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import halfseen as hs
from halfseen.arrays import Pixels
from halfseen.data.image import write_image
from halfseen.data.scenes import render_scene
from halfseen.detections import Detections, GroundTruth
from halfseen.geometry import iou
from halfseen.report.closeup import Region, around, close_up
from halfseen.report.palette import SKY
from halfseen.report.sketch import Sketch
from halfseen.studies.demo import contact_sheet
from halfseen.suppression import suppress
from halfseen.web.catalogue import LABEL, model_file

DOCS = Path(__file__).parent
SEED = 2025  # no model learnt from these scenes
CASES = 8
SCENES = 400  # looked through at most
HEIGHT = 270  # of a picture: 4 to 3
FOUND = 0.5  # IoU with the whole object
THRESHOLD = -1.0
SURE = -0.5
EXTRA = -0.75  # the least score of a car that covering adds


@dataclass(frozen=True, eq=False)
class Case:
    """A place of a scene, what is drawn there in full, and boxes to compare, dashed."""

    scene: int
    image: Pixels
    region: Region
    found: Detections
    dashed: np.ndarray
    words: str


def scenes() -> Iterator[tuple[int, Pixels, GroundTruth]]:
    for number in range(SCENES):
        truth = render_scene(SEED, number, (LABEL,)).truth
        assert isinstance(truth.source, np.ndarray)
        yield number, truth.source, truth


def partly_hidden(baseline: hs.Detector, detector: hs.Detector) -> Iterator[Case]:
    """Cars of which 30 to 85% are seen, that VIS finds surely; with BL's box, if any."""
    for number, image, truth in scenes():
        found = detector.detect(image, SURE)
        plain = baseline.detect(image, SURE)
        for j in np.flatnonzero((truth.visible_fraction > 0.3) & (truth.visible_fraction < 0.85)):
            own, best = at(found, truth.full[j])
            if own is None or best.visible_fraction[0] > 0.9:
                continue
            _, same = at(plain, truth.full[j])
            region = around(np.concatenate([best.clipped, truth.box[[j]]]), truth.size)
            told = f"VIS {best.score[0]:.2f}"
            told += f", BL {same.score[0]:.2f}" if len(same) else ", BL missed"
            yield Case(number, image, region, best, same.clipped, told)
            break


def added(detector: hs.Detector) -> Iterator[Case]:
    """True cars, partly behind another, that covering keeps and greedy drops at the same t."""
    for number, image, truth in scenes():
        candidates = detector.candidates(image, THRESHOLD)
        greedy = candidates[suppress(candidates, "greedy").indices]
        kept = candidates[suppress(candidates, "covering").indices]
        for j in range(len(truth)):
            _, more = at(kept[kept.score >= EXTRA], truth.full[j])
            _, same = at(greedy, truth.full[j])
            beside = greedy[overlaps(greedy, truth.full[j]) > 0.05]
            if len(more) and not len(same) and len(beside):
                region = around(np.concatenate([more.clipped, beside[:2].clipped]), truth.size)
                yield Case(number, image, region, more, beside[:2].clipped, f"{more.score[0]:.2f}")
                break


def overlaps(found: Detections, box: np.ndarray) -> np.ndarray:
    return iou(found.full, np.broadcast_to(box, found.full.shape))


def at(found: Detections, box: np.ndarray) -> tuple[int | None, Detections]:
    """The best detection of an object, by place and as Detections; none of them: None, empty."""
    right = np.flatnonzero(overlaps(found, box) >= FOUND)
    return (int(right[0]), found[right[:1]]) if len(right) else (None, found[[]])


def picture(case: Case) -> Pixels:
    drawn = close_up(case.image, case.region, case.found)
    x1, y1, x2, _ = case.region
    zoom = drawn.shape[1] / (x2 - x1)
    sketch = Sketch((drawn.shape[0], drawn.shape[1]))
    for box in case.dashed:
        sketch.dashed_box((box - (x1, y1, x1, y1)) * zoom, SKY, 2)
    framed = np.full((HEIGHT, drawn.shape[1], 3), 255, np.uint8)
    lines = sketch.over(drawn.astype(np.float32))[:HEIGHT]
    framed[: len(lines)] = lines
    return framed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=DOCS / "pictures")
    parser.add_argument("--show", action="store_true", help="list the scenes")
    options = parser.parse_args()
    bl, vis = (hs.Detector(hs.load(model_file(method))) for method in ("BL", "VIS"))
    for name, cases in (("visibility", partly_hidden(bl, vis)), ("suppression", added(vis))):
        chosen = [case for case, _ in zip(cases, range(CASES), strict=False)]
        for case in chosen if options.show else ():
            print(f"{name}: scene {case.scene}, {case.words}")
        path = options.out / f"gallery-{name}.jpg"
        write_image(path, contact_sheet([picture(case) for case in chosen], columns=4))
        print(f"wrote {path}, {len(chosen)} cases")


if __name__ == "__main__":
    main()
