"""The example of a user's own descriptor runs, and finds what it drew."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from halfseen.features.descriptor import Descriptor, make_descriptor
from halfseen.geometry import iou

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_descriptor.py"


def test_the_example_finds_both_lights(capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(EXAMPLE))
    found = names["main"]()
    assert len(found) == 2
    whole, half = np.array([[40, 60, 80, 156]]), np.array([[200, 90, 240, 186]])
    assert iou(found.full[:1], whole).item() > 0.8
    assert iou(found.full[1:], half).item() > 0.8
    assert found.visibility[0].all()
    # The post covers the right half: three of five columns of blocks, the first only in part.
    assert found.visibility[1][:, 0].all()
    assert not found.visibility[1][:, -2:].any()
    assert capsys.readouterr().out.count("traffic light: score") == 2
    assert isinstance(make_descriptor("colour-cells", cell=6), Descriptor)
