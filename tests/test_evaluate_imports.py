"""Evaluation knows results, not how they are made; and it is light to import."""

import subprocess
import sys

MODULES = ("voc_ap", "results", "coco_ap", "visibility", "blocks", "sweep", "crowd", "table")


def test_evaluation_imports_neither_inference_nor_learning_nor_kernels():
    lines = [f"import halfseen.evaluate.{name}" for name in MODULES]
    lines += ["import sys", "print(*sys.modules)"]
    script = "\n".join(lines)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "halfseen.evaluate.sweep" in loaded
    for name in ("halfseen.infer", "halfseen.learn", "halfseen.view", "numba", "matplotlib"):
        assert name not in loaded
