"""Measures of what was found against what is truly there.

Everything here takes ground truth (one `GroundTruth` an image) and detections (one `Detections` an
image), and knows nothing of how they came about.
"""
