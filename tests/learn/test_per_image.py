"""Features are kept where they were made, within a bound; limits are named where people look."""

import gc
import pickle
from dataclasses import fields
from pathlib import Path

from halfseen.data.limits import Limits
from halfseen.learn.per_image import FeatureCache

ROOT = Path(__file__).parents[2]


def test_a_cache_makes_once_and_keeps_what_fits() -> None:
    made: list[int] = []
    cache: FeatureCache[bytes] = FeatureCache(10)

    def get(index: int, size: int) -> bytes:
        def make() -> bytes:
            made.append(index)
            return bytes(size)

        return cache.get(index, make, len)

    for index, size in ((0, 6), (1, 5), (2, 4), (0, 6), (1, 5), (2, 4)):
        assert len(get(index, size)) == size
    assert made == [0, 1, 2, 1]


def test_a_cache_travels_as_its_name() -> None:
    cache: FeatureCache[bytes] = FeatureCache(1000)
    cache.get(0, lambda: bytes(500), len)
    sent = pickle.dumps(cache)
    assert len(sent) < 200
    assert pickle.loads(sent) is cache
    name = cache.name
    del cache
    gc.collect()
    arrived = pickle.loads(sent)  # as in a process that has not met it
    assert (arrived.name, arrived.most_bytes) == (name, 1000)
    assert arrived.get(0, lambda: b"made anew", len) == b"made anew"


def test_every_limit_is_told_in_the_security_page() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for limit in fields(Limits):
        assert f"| `{limit.name}` |" in text
        assert f"    {limit.name} " in (Limits.__doc__ or "")
