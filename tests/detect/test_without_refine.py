"""The paper's detector works where the package `refine` does not exist."""

import subprocess
import sys

PROGRAM = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "halfseen.refine" or name.startswith("halfseen.refine."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())

import importlib, pkgutil
import halfseen as hs
import halfseen.detect, halfseen.suppression, halfseen.visibility

for package in (halfseen.visibility, halfseen.detect, halfseen.suppression):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
from halfseen.detect.detector import PaperDetector

image = hs.render_scenes(1, seed=5, classes=["car"]).image(0)
for name in ("car.fast", "car.fhog"):
    found = PaperDetector(hs.load(name)).detect(image, -1.5)
    print(len(found), *(repr(float(score)) for score in found.score[:5]))
assert not any(name.startswith("halfseen.refine") for name in sys.modules)
"""


def test_the_plain_detector_needs_nothing_of_refine() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    plain, with_head = run.stdout.splitlines()
    assert int(plain.split()[0]) > 0
    assert plain == with_head
