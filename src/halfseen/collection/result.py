"""What became of one image of a run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfseen.detections import Detections

Record = dict[str, Any]


@dataclass(frozen=True)
class ImageResult:
    """The detections in one image, or the reason why there are none.

    name        the image, as the user named it
    detections  None where the image failed
    error       the reason of the failure; with detections, why there is no picture of them
    suppressed  records of the candidates that suppression dropped, where they were wanted
    """

    name: str
    detections: Detections | None
    error: str = ""
    suppressed: tuple[Record, ...] = ()

    @property
    def stem(self) -> str:
        """The file's name without its folder and suffix."""
        return PurePath(self.name).stem

    def record(self) -> Record:
        """Return the image as a JSON object."""
        from halfseen.data.records import records

        if self.detections is None:
            return {"image": self.name, "error": self.error}
        height, width = self.detections.size
        content: Record = {"image": self.name, "width": width, "height": height}
        content["detections"] = records(self.detections)
        if self.suppressed:
            content["suppressed"] = self.suppressed
        return content

    def line(self) -> str:
        """Return the image as one line of JSON."""
        return json.dumps(self.record())
