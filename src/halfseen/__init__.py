"""halfseen finds objects that are only partly visible, and says which part of each it can see.

The public names are imported when they are first used, so that `import halfseen` costs next to
nothing. They all stand in `_PLACES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halfseen.compilation import find_cache

if TYPE_CHECKING:
    from halfseen.data.coco import read_coco as read_coco
    from halfseen.data.scenes import render_scenes as render_scenes
    from halfseen.data.voc import read_voc as read_voc
    from halfseen.detections import Detections as Detections
    from halfseen.detections import GroundTruth as GroundTruth
    from halfseen.errors import HalfseenError as HalfseenError
    from halfseen.evaluate.voc_ap import average_precision as average_precision
    from halfseen.infer.detector import Detector as Detector
    from halfseen.infer.visibility import infer_visibility as infer_visibility
    from halfseen.learn.trainer import train as train
    from halfseen.model.store import load as load
    from halfseen.model.store import save as save
    from halfseen.suppress import suppress as suppress
    from halfseen.suppress import suppress_masks as suppress_masks

    __version__: str

_PLACES = {
    "Detections": "halfseen.detections",
    "Detector": "halfseen.infer.detector",
    "GroundTruth": "halfseen.detections",
    "HalfseenError": "halfseen.errors",
    "average_precision": "halfseen.evaluate.voc_ap",
    "infer_visibility": "halfseen.infer.visibility",
    "load": "halfseen.model.store",
    "read_coco": "halfseen.data.coco",
    "read_voc": "halfseen.data.voc",
    "render_scenes": "halfseen.data.scenes",
    "save": "halfseen.model.store",
    "suppress": "halfseen.suppress",
    "suppress_masks": "halfseen.suppress",
    "train": "halfseen.learn.trainer",
}

__all__ = [*_PLACES, "__version__"]

find_cache()


def __getattr__(name: str) -> Any:
    from importlib import import_module, metadata

    if name == "__version__":
        value: Any = metadata.version("halfseen")
    elif name in _PLACES:
        module = import_module(_PLACES[name])
        # `suppress` is a package that can be called: its modules stay in reach below it.
        value = module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
    else:
        raise AttributeError(f"module 'halfseen' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
