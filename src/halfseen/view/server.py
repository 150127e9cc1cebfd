"""The web page's server: a few fixed routes, each a pure function of what it is sent.

It keeps nothing of a request, reads no file that a request names, and writes none.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from ipaddress import ip_address
from typing import Annotated, Any

import numpy as np
import uvicorn
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.routing import Route
from threadpoolctl import threadpool_limits

from halfseen.data.image import decode_image
from halfseen.data.limits import LIMITS
from halfseen.errors import HalfseenError, SettingsError
from halfseen.view import palette
from halfseen.view.catalogue import (
    SCENES,
    ModelSet,
    encode,
    scene_file,
    scene_objects,
    scene_pixels,
)
from halfseen.view.guard import Desk, Guard, Refused, ServeLimits, read_body
from halfseen.view.live import METHODS, LiveSettings, inspect, look
from halfseen.view.records import Record

log = logging.getLogger(__name__)

SCRIPTS = ("page", "state", "live", "show", "inspect", "hand", "cover", "draw")
PAGES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in SCRIPTS},
}


def make_app(
    sets: Sequence[ModelSet], limits: ServeLimits | None = None, names: Sequence[str] = ()
) -> FastAPI:
    """The application. `names`: host names, besides localhost, under which it may be called."""
    limits = limits or ServeLimits()
    desk = Desk(limits)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.desk = desk
    app.add_middleware(Guard, names=names)
    _add_errors(app)
    _add_pages(app)

    async def pixels(request: Request, width: int, height: int) -> NDArray[np.uint8]:
        _check_size(width, height, limits)
        body = await read_body(request, 4 * width * height, limits.body_seconds)
        return _from_rgba(body, width, height)

    @app.get("/api/setup")
    async def setup() -> Record:
        return _describe(sets, limits)

    @app.get("/api/scenes/{number}")
    async def describe_scene(number: int) -> Record:
        with desk.place():
            return {"objects": await desk.run(scene_objects, number)}

    @app.get("/api/scenes/{number}/picture.png")
    async def picture(number: int) -> Response:
        with desk.place():
            return Response(await desk.run(scene_file, number), media_type="image/png")

    @app.get("/api/scenes/{number}/thumbnail.jpg")
    async def thumbnail(number: int) -> Response:
        with desk.place():
            return Response(await desk.run(scene_file, number, True), media_type="image/jpeg")

    @app.post("/api/photo")
    async def photo(request: Request) -> Response:
        with desk.place():
            content = await read_body(request, limits.upload_bytes, limits.body_seconds)
            picture, size = await desk.run(_read_photo, content, limits)
        return Response(picture, media_type="image/png", headers={"X-Original-Size": size})

    @app.post("/api/look")
    async def look_at(
        request: Request,
        width: int,
        height: int,
        settings: Annotated[LiveSettings, Depends(_settings)],
        models: int = 0,
        watched: str | None = None,
    ) -> Response:
        chosen = _chosen(sets, models)
        box = None if watched is None else _box(watched)
        with desk.place():
            image = await pixels(request, width, height)
            return JSONResponse(await desk.run(look, image, chosen.models, settings, box))

    @app.post("/api/inspect")
    async def inspect_one(
        request: Request,
        width: int,
        height: int,
        settings: Annotated[LiveSettings, Depends(_settings)],
        method: str,
        index: int,
        models: int = 0,
    ) -> Response:
        chosen = _chosen(sets, models)
        with desk.place():
            image = await pixels(request, width, height)
            return JSONResponse(
                await desk.run(inspect, image, chosen.models, settings, method, index)
            )

    return app


def serve(
    sets: Sequence[ModelSet],
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: ServeLimits | None = None,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serves the page until interrupted; port 0 takes any that is free. `on_ready` learns where."""
    # One thread of BLAS for each request: they are the parallel work, and its threads would only
    # wait for each other.
    with threadpool_limits(limits=1, user_api="blas"):
        look(scene_pixels(0)[:96, :128], sets[0].models, LiveSettings())  # compile before listening
        listener = _listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listener.getsockname()[1]}/")
        server(make_app(sets, limits, [host])).run(sockets=[listener])


def server(app: FastAPI) -> uvicorn.Server:
    """What carries the application: HTTP only, silent, and patient with idle connections."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            ws="none",
            log_level="critical",
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=3,
            limit_concurrency=200,
        )
    )


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server on this host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(
            f"cannot listen on {host} port {port}: {reason}; --port 0 takes any that is free"
        ) from None


def _settings(
    threshold: float = LiveSettings.threshold,
    alpha: Annotated[float | None, Query()] = None,
    shift: float = LiveSettings.shift,
    overlap: float = LiveSettings.overlap,
) -> LiveSettings:
    return LiveSettings(threshold, alpha, shift, overlap)


def _chosen(sets: Sequence[ModelSet], number: int) -> ModelSet:
    if not 0 <= number < len(sets):
        raise SettingsError(f"models must be 0 to {len(sets) - 1}, found {number}")
    return sets[number]


def _box(text: str) -> list[float]:
    try:
        box = [float(part) for part in text.split(",", 4)]
    except ValueError:
        box = []
    if len(box) != 4 or not np.isfinite(box).all():
        raise SettingsError("watched must be four numbers x1,y1,x2,y2")
    return box


def _check_size(width: int, height: int, limits: ServeLimits) -> None:
    if not (1 <= width <= limits.side and 1 <= height <= limits.side):
        raise SettingsError(
            f"width and height must be 1 to {limits.side} pixels, found {width} x {height}"
        )


def _from_rgba(body: bytes, width: int, height: int) -> NDArray[np.uint8]:
    if len(body) != 4 * width * height:
        raise SettingsError(
            f"expected {4 * width * height} bytes of RGBA pixels, found {len(body)}"
        )
    pixels = np.frombuffer(body, np.uint8).reshape(height, width, 4)
    return np.ascontiguousarray(pixels[..., :3])


def _read_photo(content: bytes, limits: ServeLimits) -> tuple[bytes, str]:
    """A stranger's file as a PNG of the size that is worked on, and its own size."""
    from PIL import Image

    bounds = replace(LIMITS, pixels=limits.upload_pixels, image_bytes=limits.upload_bytes)
    pixels = decode_image(content, "photo", bounds, upright=True)
    height, width = pixels.shape[:2]
    shrink = limits.side / max(height, width)
    if shrink < 1:
        size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
        image = Image.fromarray(pixels).resize(size, Image.Resampling.BOX, reducing_gap=3.0)
        pixels = np.asarray(image)
    return encode(pixels), f"{width}x{height}"


def _describe(sets: Sequence[ModelSet], limits: ServeLimits) -> Record:
    return {
        "models": [
            {
                "name": one.name,
                "label": one.label,
                "methods": [name for name, (own, _) in METHODS.items() if own in one.models],
                "alpha": one.models["VIS"].alpha if "VIS" in one.models else None,
                "u": [c.u for c in one.models["VIS"].components] if "VIS" in one.models else [],
            }
            for one in sets
        ],
        "scenes": len(SCENES),
        "settings": asdict(LiveSettings()),
        "limits": asdict(limits),
        "colours": [palette.hexadecimal(colour) for colour in palette.CYCLE],
    }


def _add_pages(app: FastAPI) -> None:
    folder = files("halfseen.view").joinpath("web")
    for path, (name, kind) in PAGES.items():
        app.router.routes.append(Route(path, _page(folder.joinpath(name).read_bytes(), kind)))


def _page(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def page(request: Request) -> Response:
        return Response(content, media_type=kind)

    return page


def _add_errors(app: FastAPI) -> None:
    """Whatever goes wrong is one line of text, in JSON."""

    def answer(status: int, line: str) -> JSONResponse:
        retry = {"Retry-After": "1"} if status == 503 else None
        return JSONResponse({"error": line}, status, headers=retry)

    async def known(request: Request, error: Any) -> JSONResponse:
        return answer(getattr(error, "status", 400), str(error))

    async def unknown_route(request: Request, error: Any) -> JSONResponse:
        return answer(error.status_code, f"{request.method} here: {error.detail}")

    async def wrong_parameter(request: Request, error: Any) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return answer(422, f"{where}: {first['msg']}")

    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        return answer(500, f"unexpected {type(error).__name__}; this is a bug, please report it")

    app.add_exception_handler(Refused, known)
    app.add_exception_handler(HalfseenError, known)
    app.add_exception_handler(HTTPException, unknown_route)
    app.add_exception_handler(RequestValidationError, wrong_parameter)
    app.add_exception_handler(Exception, unexpected)
