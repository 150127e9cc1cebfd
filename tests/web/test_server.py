"""The page's server over real sockets: what it answers, and what it refuses from strangers."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from halfseen.errors import SettingsError
from halfseen.web import catalogue, server
from halfseen.web.catalogue import find_sets, scene_objects, scene_pixels
from halfseen.web.guard import ServeLimits
from halfseen.web.live import LiveSettings, compare
from tests.builders import png_header

LIMITS = ServeLimits(upload_bytes=300_000, upload_pixels=1_000_000, workers=2, waiting=2)
PAGES = [
    "/",
    *(f"/{path.name}" for path in sorted(Path(server.__file__).parent.glob("static/*.[cj]s*"))),
]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        line = self.json["error"]
        assert "\n" not in line
        assert "Traceback" not in line
        return str(line)


class Page:
    """A server on a free port."""

    def __init__(self, limits: ServeLimits = LIMITS) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.app = server.make_app(find_sets(), limits, ["my-machine"])
        self.server = server.server(self.app, limits)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],))
        self.thread.start()

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        response = connection.getresponse()
        answer = Answer(
            response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        )
        connection.close()
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, body: Any = b"", **headers: str) -> Answer:
        return self.ask("POST", path, body, **headers)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    made = Page()
    yield made
    made.close()


def rgba(pixels: np.ndarray) -> bytes:
    opaque = np.full((*pixels.shape[:2], 1), 255, np.uint8)
    return np.concatenate([pixels, opaque], axis=2).tobytes()


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def test_the_page_comes_whole_and_asks_nobody_else(page: Page) -> None:
    for path in PAGES:
        answer = page.get(path)
        assert answer.status == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        text = answer.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"""https?://|["'(]//""", text), path
    assert page.get("/").headers["content-type"].startswith("text/html")
    everything = "".join(page.get(path).body.decode() for path in PAGES)
    linked = re.findall(r'(?:src=|href=|from )"(/[^"]+)"', everything)
    assert {"/", *linked} == set(PAGES)


def test_setup_names_the_models_and_methods(page: Page) -> None:
    setup = page.get("/api/setup").json
    assert setup["models"][0]["methods"] == ["BL", "BLT", "VIS", "VIS+NMS"]
    assert setup["limits"]["upload_bytes"] == LIMITS.upload_bytes
    assert setup["scenes"] == len(catalogue.SCENES)


def test_the_classes_of_a_photograph_are_asked_of_all_models(page: Page) -> None:
    pixels = np.zeros((50, 60, 3), np.uint8)
    assert page.post("/api/classes?width=60&height=50", rgba(pixels)).json == []
    assert page.post("/api/classes?width=60&height=51", rgba(pixels)).status == 400


def test_scenes_are_served_without_loss(page: Page) -> None:
    picture = page.get("/api/scenes/1/picture.png")
    assert (np.asarray(Image.open(io.BytesIO(picture.body))) == scene_pixels(1)).all()
    assert page.get("/api/scenes/1").json == {"objects": scene_objects(1)}
    small = Image.open(io.BytesIO(page.get("/api/scenes/1/thumbnail.jpg").body))
    assert max(small.size) <= 160


def test_look_gives_what_the_function_gives(page: Page) -> None:
    pixels = scene_pixels(0)
    height, width = pixels.shape[:2]
    box = scene_objects(0)[0]["full"]
    watched = ",".join(map(str, box))
    query = f"width={width}&height={height}&threshold=-0.25&overlap=0.4&watched={watched}"
    answer = page.post(f"/api/look?{query}", rgba(pixels))
    settings = LiveSettings(threshold=-0.25, overlap=0.4)
    assert answer.json == compare(pixels, find_sets()[0].models, settings, box)
    reported = answer.json["methods"][2]["detections"]
    assert reported
    inspected = page.post(
        f"/api/inspect?{query}&method=VIS&index={reported[0]['index']}", rgba(pixels)
    ).json
    assert inspected["detection"]["full"] == reported[0]["full"]


def test_photos_become_pictures_of_the_working_size(page: Page) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    answer = page.post("/api/photo", png(pixels))
    assert answer.headers["x-original-size"] == "90x60"
    assert (np.asarray(Image.open(io.BytesIO(answer.body))) == pixels).all()
    wide = page.post("/api/photo", png(np.zeros((200, 2048, 3), np.uint8)))
    assert Image.open(io.BytesIO(wide.body)).size == (768, 75)


def bomb(width: int, height: int) -> bytes:
    """A small PNG file that announces width x height pixels."""
    return png_header(width, height, bytes(100_000))


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        (b"", 400, "empty"),
        (b"hello, I am a text", 400, "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", 400, "not an image"),
        (bomb(30_000, 30_000), 400, "exceed the limit of 1,000,000"),
        (bomb(900, 900)[:400], 400, "damaged"),
        (bytes(LIMITS.upload_bytes + 1), 413, "limit"),
    ],
)
def test_bad_photos_get_one_line(page: Page, content: bytes, status: int, says: str) -> None:
    answer = page.post("/api/photo", content)
    assert answer.status == status
    assert says in answer.error


def test_a_body_without_a_stated_length_is_bounded_too(page: Page) -> None:
    pieces = (bytes(50_000) for _ in range(20))
    answer = page.post("/api/photo", pieces)
    assert answer.status == 413
    assert "limit" in answer.error


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"Host": "127.0.0.1"}, True),
        ({"Host": "LOCALHOST:1234"}, True),
        ({"Host": "[::1]:1234"}, True),
        ({"Host": "my-machine"}, True),
        ({"Host": "evil.example"}, False),
        ({"Host": "evil.example:8000"}, False),
        ({"Host": "127.0.0.1.evil.example"}, False),
        ({"Host": "localhost:80@evil.example"}, False),
        ({"Host": ""}, False),
        ({"Host": "localhost", "Origin": "http://localhost"}, True),
        ({"Host": "localhost", "Origin": "http://localhost:3000"}, False),
        ({"Host": "localhost", "Origin": "https://evil.example"}, False),
        ({"Host": "localhost", "Origin": "null"}, False),
        ({"Host": "localhost", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Host": "localhost", "Sec-Fetch-Site": "cross-site"}, False),
        ({"Host": "localhost", "Sec-Fetch-Site": "same-site"}, False),
        ({"Host": "localhost", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, True),
    ],
)
def test_strangers_pages_are_refused(page: Page, headers: dict[str, str], allowed: bool) -> None:
    answer = page.get("/api/setup", **headers)
    assert answer.status == (200 if allowed else 403)
    assert allowed or answer.error


def test_a_foreign_origin_cannot_post(page: Page) -> None:
    answer = page.post("/api/photo", png(np.zeros((8, 8, 3), np.uint8)), Origin="http://evil")
    assert answer.status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "/../../../../etc/passwd", "/..%2f..%2f..%2fetc/passwd", "//etc/passwd",
        "/page.js/../server.py", "/server.py", "/web/page.js", "/page.js%00.html", "/docs",
        "/openapi.json", "/api/scenes/..%2f1", "/api/scenes/1/picture.png/..",
        "/api/scenes/..%2f..%2fetc%2fpasswd/picture.png",
    ],
)  # fmt: skip
def test_no_path_leads_to_a_file(page: Page, path: str) -> None:
    answer = page.get(path)
    assert answer.status in (404, 422)
    assert answer.error


@pytest.mark.parametrize("path", ["/" + "a/" * 20_000, "/api/setup?" + "a=1&" * 5_000])
def test_long_addresses_are_refused(page: Page, path: str) -> None:
    answer = page.get(path)
    assert answer.status in (400, 403, 414)


def test_pages_cannot_be_written(page: Page) -> None:
    for method in ("PUT", "DELETE", "POST", "PATCH"):
        assert page.ask(method, "/page.js", b"x").status == 405


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("width=8&height=8&threshold=nan", "threshold"),
        ("width=8&height=8&alpha=inf", "alpha"),
        ("width=8&height=8&shift=-7", "shift"),
        ("width=8&height=8&overlap=2", "overlap"),
        ("width=8&height=8&models=99", "models"),
        ("width=8&height=8&models=-1", "models"),
        ("width=8&height=8&watched=1,2,3", "watched"),
        ("width=8&height=8&watched=1,2,3,nan", "watched"),
        ("width=9&height=8", "bytes"),
        ("width=0&height=8", "width"),
        ("width=100000&height=100000", "768"),
        ("width=eight&height=8", "width"),
        ("height=8", "width"),
    ],
)
def test_wrong_parameters_get_one_line(page: Page, query: str, says: str) -> None:
    answer = page.post(f"/api/look?{query}", bytes(4 * 8 * 8))
    assert answer.status in (400, 413, 422)
    assert says in answer.error


def test_a_detection_that_is_not_there_gets_one_line(page: Page) -> None:
    query = "width=8&height=8&index=3"
    assert "not among" in page.post(f"/api/inspect?{query}&method=VIS", bytes(256)).error
    assert "one of BL" in page.post(f"/api/inspect?{query}&method=XYZ", bytes(256)).error
    assert page.post("/api/look?width=8&height=8", bytes(256)).json["methods"][0]["candidates"] == 0


def test_slow_work_blocks_nobody_and_nobody_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, working = threading.Event(), threading.Semaphore(0)

    def wait(*_: Any) -> dict[str, Any]:
        working.release()
        gate.wait(60)
        return {}

    monkeypatch.setattr(server, "compare", wait)
    page = Page(replace(LIMITS, workers=1, waiting=1))
    try:
        # One computes, one waits with its body read, two are not read yet.
        waiting = [in_background(lambda: page.post(PLAIN, bytes(256))) for _ in range(4)]
        working.acquire()
        assert page.get("/api/setup").status == 200
        assert page.get("/page.css").status == 200
        gate.set()
        assert [answer().status for answer in waiting] == [200] * 4
        assert page.post(PLAIN, bytes(256)).status == 200
    finally:
        gate.set()
        page.close()


def test_too_many_connections_are_answered_503() -> None:
    page = Page(replace(LIMITS, connections=3))
    try:
        with ExitStack() as stack:
            idle = [
                stack.enter_context(socket.create_connection(("127.0.0.1", page.port), 30))
                for _ in range(3)
            ]
            wait_until(lambda: page.get("/api/setup").status == 503)
            for connection in idle:
                connection.close()
            wait_until(lambda: page.get("/api/setup").status == 200)
    finally:
        page.close()


PLAIN = "/api/look?width=8&height=8"


def in_background(function: Callable[[], Answer]) -> Callable[[], Answer]:
    results: list[Answer] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()

    def result() -> Answer:
        thread.join(60)
        return results[0]

    return result


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about")


def test_bodies_that_never_come_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(replace(LIMITS, body_seconds=0.2, workers=1, waiting=0))
    try:
        with socket.create_connection(("127.0.0.1", page.port), 30) as slow:
            request = f"POST {PLAIN} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 256\r\n\r\nabc"
            slow.sendall(request.encode())
            assert b" 408 " in slow.recv(100)
        assert page.post(PLAIN, bytes(256)).status == 200
        monkeypatch.setattr(server, "compare", lambda *_: 1 / 0)
        broken = page.post(PLAIN, bytes(256))
        assert (broken.status, "ZeroDivisionError" in broken.error) == (500, True)
    finally:
        page.close()


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port}"):
            server.serve(find_sets(), port=port)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("pc", False)],
)
def test_only_loopback_is_local(host: str, local: bool) -> None:
    assert server.is_local(host) == local


def test_given_models_come_first_and_make_sets_by_class(tmp_path: Any) -> None:
    from halfseen.model.mixture import METHODS
    from halfseen.web.catalogue import model_file, photograph_models

    files = [model_file(method) for method in METHODS]
    sets = find_sets([files[2], files[0], files[2]], tmp_path)
    assert [(s.name, sorted(s.models)) for s in sets] == [
        ("car", ["BL", "VIS"]),
        ("car", ["Rigid", "VIS"]),
    ]
    assert [n for n, _ in photograph_models(sets)] == [0, 1]
    everything = [own.label for own in find_sets() if own.learnt == "photographs"]
    assert len(photograph_models(find_sets())) == len(everything) == 20
    names = [own.name for own in find_sets()]
    assert names[:2] == ["car, learnt from built-in scenes", "aeroplane, learnt from photographs"]
    with pytest.raises(SettingsError, match="no models"):
        find_sets([], tmp_path)
