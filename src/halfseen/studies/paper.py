"""The paper's own figures: average precision in percent on VOC 2010 test (comp3), its table 1."""

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train",
    "tvmonitor",
)  # fmt: skip

_ORDER = (*CLASSES[:13], "person", "motorbike", *CLASSES[15:])

_ROWS = {
    "BL": (25.7, 28.8, 0.2, 2.4, 0.9, 30.5, 22.3, 2.5, 5.1, 3.9,
           5.2, 3.7, 13.4, 20.5, 25.6, 3.4, 7.1, 3.6, 13.2, 26.3),
    "VIS": (28.0, 27.9, 0.2, 3.4, 1.3, 32.3, 23.5, 3.9, 5.9, 5.4,
            5.3, 4.6, 14.9, 17.6, 27.3, 3.7, 8.1, 3.8, 13.2, 27.3),
    "VIS_t": (27.7, 27.7, 0.1, 3.2, 1.0, 31.9, 22.9, 3.0, 5.6, 5.2,
              4.9, 3.9, 14.4, 16.2, 27.1, 3.5, 7.8, 3.3, 12.8, 26.9),
    "VIS+NMS": (26.3, 28.1, 0.1, 3.2, 1.0, 32.5, 23.7, 3.0, 5.8, 5.3,
                4.3, 3.9, 13.7, 15.8, 27.2, 3.5, 7.5, 3.2, 12.2, 25.9),
}  # fmt: skip

AP = {
    method: dict(zip(_ORDER, values, strict=True)) for method, values in _ROWS.items()
}  # by method, then class
