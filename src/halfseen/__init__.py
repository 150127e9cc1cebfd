"""halfseen finds objects that are only partly visible, and says which part of each it can see.

The public names stand in `_PLACES`, each with its module (and its name there, if that differs).
They are imported when they are first used, so that `import halfseen` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halfseen.compute.libraries import drop_stale_kernels, find_cache

if TYPE_CHECKING:
    from halfseen.data.coco import read_coco as read_coco
    from halfseen.data.dataset import Dataset as Dataset
    from halfseen.data.image import read_image as read_image
    from halfseen.data.image import write_image as write_image
    from halfseen.data.scenes import render_scenes as render_scenes
    from halfseen.data.voc import read_voc as read_voc
    from halfseen.detections import Block as Block
    from halfseen.detections import Detections as Detections
    from halfseen.errors import HalfseenError as HalfseenError
    from halfseen.evaluate.coco_ap import coco_average_precision as coco_average_precision
    from halfseen.evaluate.voc_ap import average_precision as average_precision
    from halfseen.geometry import iou_matrix as iou_matrix
    from halfseen.ground_truth import GroundTruth as GroundTruth
    from halfseen.learn.check import check as check
    from halfseen.learn.masks.head import learn_masks as learn_masks
    from halfseen.learn.probability import learn_calibration as learn_calibration
    from halfseen.learn.settings import MaskSettings as MaskSettings
    from halfseen.learn.settings import TrainSettings as TrainSettings
    from halfseen.learn.train import train as train
    from halfseen.model.mixture import Mixture as Mixture
    from halfseen.model.shipped import models as models
    from halfseen.model.store import load as load
    from halfseen.model.store import save as save
    from halfseen.refine.detector import Detector as Detector
    from halfseen.report.draw import draw_detections as _draw
    from halfseen.suppression import Interpretation as Interpretation
    from halfseen.suppression import suppress as suppress
    from halfseen.suppression import suppress_boxes as suppress_boxes
    from halfseen.suppression import suppress_masks as suppress_masks
    from halfseen.suppression.adapters import from_numpy as from_numpy
    from halfseen.suppression.adapters import suppress_supervision as suppress_supervision
    from halfseen.suppression.adapters import to_supervision as to_supervision
    from halfseen.visibility.infer import infer_visibility as infer_visibility

    __version__: str
    draw = _draw

_PLACES = {
    "Block": "halfseen.detections",
    "Dataset": "halfseen.data.dataset",
    "Detections": "halfseen.detections",
    "Detector": "halfseen.refine.detector",
    "GroundTruth": "halfseen.ground_truth",
    "HalfseenError": "halfseen.errors",
    "Interpretation": "halfseen.suppression",
    "MaskSettings": "halfseen.learn.settings",
    "Mixture": "halfseen.model.mixture",
    "TrainSettings": "halfseen.learn.settings",
    "average_precision": "halfseen.evaluate.voc_ap",
    "check": "halfseen.learn.check",
    "coco_average_precision": "halfseen.evaluate.coco_ap",
    "draw": "halfseen.report.draw:draw_detections",
    "from_numpy": "halfseen.suppression.adapters",
    "infer_visibility": "halfseen.visibility.infer",
    "iou_matrix": "halfseen.geometry",
    "learn_calibration": "halfseen.learn.probability",
    "learn_masks": "halfseen.learn.masks.head",
    "load": "halfseen.model.store",
    "models": "halfseen.model.shipped",
    "read_coco": "halfseen.data.coco",
    "read_image": "halfseen.data.image",
    "read_voc": "halfseen.data.voc",
    "render_scenes": "halfseen.data.scenes",
    "save": "halfseen.model.store",
    "suppress": "halfseen.suppression",
    "suppress_boxes": "halfseen.suppression",
    "suppress_masks": "halfseen.suppression",
    "suppress_supervision": "halfseen.suppression.adapters",
    "to_supervision": "halfseen.suppression.adapters",
    "train": "halfseen.learn.train",
    "write_image": "halfseen.data.image",
}

__all__ = [*_PLACES, "__version__"]

drop_stale_kernels()
find_cache()


def __getattr__(name: str) -> Any:
    from importlib import import_module, metadata

    if name == "__version__":
        value: Any = metadata.version("halfseen")
    elif name in _PLACES:
        module, _, other = _PLACES[name].partition(":")
        value = getattr(import_module(module), other or name)
    else:
        raise AttributeError(f"module 'halfseen' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
