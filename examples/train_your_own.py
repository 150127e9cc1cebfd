"""Train a detector of your own from boxes, look at what it learnt, and use it.

    python examples/train_your_own.py [FOLDER]

Needs no data: it draws scenes of cars, half of them partly hidden, and treats them like your own
photographs. To use yours, replace `hs.render_scenes` by `hs.read_voc(folder, "train")` or
`hs.read_coco("labels.json", "photos")`, and "car" by your class.
"""

import sys
from pathlib import Path

import halfseen as hs
from halfseen.learn.progress import Progress
from halfseen.report.learnt import write_pictures


def main(folder: Path, scenes: int = 60, tests: int = 20) -> float:
    """Train and test; returns the average precision."""
    folder.mkdir(parents=True, exist_ok=True)

    # 1. The data: images, and a box around each object. Scenes of their own, to test on.
    lessons = hs.render_scenes(scenes, seed=1, classes=["car"], size=(240, 320))
    unseen = hs.render_scenes(tests, seed=2, classes=["car"], size=(240, 320))

    # 2. Look before you learn: what can be read, what can be reached, what it will cost.
    settings = hs.TrainSettings(blocks=60, updates=2, rounds=2, mining_images=40, alpha=0.02)
    report = hs.check(lessons, "car", settings)
    print(f"{report.objects} cars, {report.whole} of them whole; "
          f"{len(report.unreached)} out of reach; about {report.seconds:.0f} s")  # fmt: skip
    for missed in report.unreached:
        print(f"  out of reach: {missed.file} {missed.box}, best overlap {missed.overlap:.2f}")

    # 3. Learn. Nobody says what is hidden: training finds out. A checkpoint after every round.
    def tell(progress: Progress) -> None:
        if (entry := progress.round) is not None:
            print(f"update {entry.stage} round {entry.round}: energy {entry.energy:.2f}, "
                  f"{entry.hidden_share:.0%} of the cars' blocks hidden; "
                  f"about {progress.left:.0f} s left")  # fmt: skip

    model_file = folder / "car.safetensors"
    model = hs.train(lessons, "car", settings, on_progress=tell, save_to=folder / "car.checkpoint")
    hs.save(model, model_file)
    for picture in write_pictures(model, model_file):
        print(f"wrote {picture}")

    # 4. Use it: what was found, how much of it can be seen, and how good that is.
    detector = hs.Detector(hs.load(model_file))
    found = [detector.detect(unseen.image(i)) for i in range(tests)]
    best = max(range(tests), key=lambda i: max(found[i].score, default=-2.0))
    for score, share in zip(found[best].score, found[best].visible_fraction, strict=True):
        if score > 0:
            print(f"a car, score {score:.2f}, {share:.0%} of it visible")
    hs.write_image(folder / "found.png", hs.draw(unseen.image(best), found[best], strong=0.0))
    result = hs.average_precision(unseen.truths, found, "car")
    print(f"average precision on {tests} new scenes: {100 * result.ap:.1f}%")
    return result.ap


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "own"))
