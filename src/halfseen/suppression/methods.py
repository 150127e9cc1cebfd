"""The table of methods, by name."""

from typing import Any

from halfseen.suppression.covering import Covering
from halfseen.suppression.greedy import Greedy
from halfseen.suppression.meanshift import MeanShift
from halfseen.suppression.method import Method, check_choice
from halfseen.suppression.soft import Soft
from halfseen.suppression.voting import Voting

METHODS: dict[str, type[Method]] = {
    kind.name: kind for kind in (Covering, Greedy, MeanShift, Soft, Voting)
}


def make_method(name: str, settings: dict[str, Any]) -> Method:
    """A method by its name, with settings of its own; SettingsError for what is not known."""
    return METHODS[check_choice("method", name, tuple(METHODS))].make(settings)
