"""The tutorial runs, learns, and leaves what it promises."""

import importlib.util
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_your_own.py"


def test_the_tutorial_trains_a_detector_that_works(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("train_your_own", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.main(tmp_path, scenes=16, tests=5) > 0.2
    for name in ("car.safetensors", "car.templates.png", "car.hidden.png", "found.png"):
        assert (tmp_path / name).stat().st_size > 1000
