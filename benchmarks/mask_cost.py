"""What masks cost: detection with a mask head against detection without, on one thread.

    python benchmarks/mask_cost.py

The picture and the model are those of `benchmarks/detection.py`; the head's numbers are random, but
its operating point is such that a tenth of the blocks is hidden, as that of learnt ones is: cuts
cost more the less is certain. The grouping network is the shipped one; figures are found.
The last line is JSON: `masks_over_none`, the median of ratios.
"""

import json
from dataclasses import replace

import numpy as np
from detection import Image, our_model, turns

import halfseen as hs
from halfseen.model.mask_head import MaskHead, shipped_grouping
from halfseen.model.mixture import Mixture

SHARE = 0.1


def with_random_head(model: Mixture) -> Mixture:
    rng = np.random.default_rng(0)
    shapes = [component.weights.shape for component in model.components]
    return replace(
        model,
        head=MaskHead(
            tuple(
                rng.normal(0, 0.3, (rows, cols, 3, 3, channels)).astype(np.float16)
                for rows, cols, channels in shapes
            ),
            tuple(np.zeros(shape[:2], np.float32) for shape in shapes),
            1.0,
            grouping=shipped_grouping(),
            figure=tuple(np.full(shape[:2], 0.5, np.float32) for shape in shapes),
        ),
    )


def with_operating_point(model: Mixture, image: Image) -> Mixture:
    """The model, with a cutoff of its head such that about SHARE of what is found is hidden."""
    assert model.head is not None
    low, high = -30.0, 30.0
    for _ in range(12):
        cutoff = (low + high) / 2
        head = replace(model.head, cutoff=(cutoff,) * len(model.components))
        found = hs.Detector(replace(model, head=head)).detect(image)
        hidden = np.mean([1 - flags.mean() for flags in found.visibility])
        low, high = (cutoff, high) if hidden > SHARE else (low, cutoff)
    return replace(model, head=head)


def main() -> None:
    image = hs.render_scenes(1, seed=5).image(0)
    model, _ = our_model(hs.render_scenes(40, seed=7), image)
    masks = hs.Detector(with_operating_point(with_random_head(model), image))
    none = hs.Detector(model)
    seconds = turns(image, {"masks": masks.detect, "none": none.detect})
    print(
        json.dumps(
            {
                "masks_over_none": round(float(np.median(seconds["masks"] / seconds["none"])), 3),
                "masks_ms": round(1e3 * float(np.median(seconds["masks"])), 2),
                "none_ms": round(1e3 * float(np.median(seconds["none"])), 2),
                "detections": len(masks.detect(image)),
            }
        )
    )


if __name__ == "__main__":
    main()
