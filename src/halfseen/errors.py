"""Errors that a user can cause: each says what was expected, found, where, and what to do."""


class HalfseenError(Exception):
    """Base of all errors raised on purpose. A command prints its one line and exits."""


class ImageError(HalfseenError):
    """An image that cannot be read or will not be (too large, not an image)."""


class AnnotationError(HalfseenError):
    """An annotation file (VOC XML, COCO JSON, results file, run-length mask) that is malformed."""


class ModelError(HalfseenError):
    """A model file that is damaged, of another version, or inconsistent."""


class SettingsError(HalfseenError):
    """A setting or argument outside its range."""


class TrainingError(HalfseenError):
    """Data from which nothing can be learnt, or learning that cannot go on."""


class ClusterError(HalfseenError):
    """A cluster that cannot be reached, or has no worker left. What was finished is kept."""
