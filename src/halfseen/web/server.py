"""The web page's server: a few fixed routes, each a pure function of what it is sent.

It keeps nothing of a request, reads no file that a request names, and writes none.
"""

from __future__ import annotations

import asyncio
import mimetypes
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, replace
from ipaddress import ip_address
from typing import Annotated, Any, TypeVar

import numpy as np
import uvicorn
from anyio import CapacityLimiter, to_thread
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from halfseen.arrays import UInt8
from halfseen.compute.libraries import one_blas_thread
from halfseen.compute.memory import share_arenas
from halfseen.data.image import decode_image
from halfseen.data.limits import LIMITS
from halfseen.data.records import Record
from halfseen.errors import HalfseenError, SettingsError
from halfseen.report import palette
from halfseen.web.catalogue import (
    SCENES,
    ModelSet,
    encode,
    photograph_models,
    scene_file,
    scene_objects,
    scene_pixels,
)
from halfseen.web.guard import Guard, Refused, ServeLimits, read_body
from halfseen.web.live import SHOWN, LiveSettings, classes, compare, inspect

Result = TypeVar("Result")

# Not left to the system's table of types, which may lack one: browsers obey it strictly.
mimetypes.add_type("text/javascript", ".js")


def make_app(
    sets: Sequence[ModelSet], limits: ServeLimits | None = None, names: Sequence[str] = ()
) -> FastAPI:
    """Return the application. `names`: host names besides localhost that it answers to."""
    limits = limits or ServeLimits()
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, names=names)
    _add_errors(app)
    threads = CapacityLimiter(limits.workers)
    places = asyncio.Semaphore(limits.workers + limits.waiting)

    async def place() -> AsyncIterator[None]:
        async with places:
            yield

    async def compute(function: Callable[..., Result], *arguments: Any) -> Result:
        return await to_thread.run_sync(function, *arguments, limiter=threads)

    async def pixels(request: Request, width: int, height: int) -> UInt8:
        _check_size(width, height, limits)
        body = await read_body(request, 4 * width * height, limits.body_seconds)
        return _from_rgba(body, width, height)

    @app.get("/api/setup")
    async def setup() -> Record:
        return _describe(sets, limits)

    @app.get("/api/scenes/{number}", dependencies=[Depends(place)])
    async def describe_scene(number: int) -> Record:
        return {"objects": await compute(scene_objects, number)}

    @app.get("/api/scenes/{number}/picture.png", dependencies=[Depends(place)])
    async def picture(number: int) -> Response:
        return Response(await compute(scene_file, number), media_type="image/png")

    @app.get("/api/scenes/{number}/thumbnail.jpg", dependencies=[Depends(place)])
    async def thumbnail(number: int) -> Response:
        return Response(await compute(scene_file, number, True), media_type="image/jpeg")

    @app.post("/api/photo", dependencies=[Depends(place)])
    async def photo(request: Request) -> Response:
        content = await read_body(request, limits.upload_bytes, limits.body_seconds)
        picture, size = await compute(_read_photo, content, limits)
        return Response(picture, media_type="image/png", headers={"X-Original-Size": size})

    @app.post("/api/look", dependencies=[Depends(place)])
    async def compare_methods(
        request: Request,
        width: int,
        height: int,
        settings: Annotated[LiveSettings, Depends(_settings)],
        models: int = 0,
        watched: str | None = None,
    ) -> Response:
        chosen = _chosen(sets, models)
        box = None if watched is None else _box(watched)
        image = await pixels(request, width, height)
        return JSONResponse(await compute(compare, image, chosen.models, settings, box))

    @app.post("/api/classes", dependencies=[Depends(place)])
    async def list_classes(request: Request, width: int, height: int) -> Response:
        image = await pixels(request, width, height)
        return JSONResponse(await compute(classes, image, photograph_models(sets)))

    @app.post("/api/inspect", dependencies=[Depends(place)])
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
        image = await pixels(request, width, height)
        return JSONResponse(await compute(inspect, image, chosen.models, settings, method, index))

    app.mount("/", StaticFiles(packages=[("halfseen.web", "static")], html=True))
    return app


def serve(
    sets: Sequence[ModelSet],
    host: str = "127.0.0.1",
    port: int = 8000,
    limits: ServeLimits | None = None,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve the page until interrupted. Port 0 takes a free one; `on_ready` is given the URL."""
    share_arenas()
    # One thread of BLAS for each request: requests run in parallel, and more threads would only
    # wait for each other.
    with one_blas_thread():
        compare(
            scene_pixels(0)[:96, :128], sets[0].models, LiveSettings()
        )  # compile before listening
        listener = _listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listener.getsockname()[1]}/")
        server(make_app(sets, limits, [host]), limits).run(sockets=[listener])


def server(app: FastAPI, limits: ServeLimits | None = None) -> uvicorn.Server:
    """Return the HTTP server of an application: silent, and with a bound on connections."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            ws="none",
            log_level="critical",
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=3,
            limit_concurrency=(limits or ServeLimits()).connections,
        )
    )


def is_local(host: str) -> bool:
    """Return whether only this machine can reach a server on this host."""
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


async def _settings(  # a plain function would take a thread
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


def _from_rgba(body: bytes, width: int, height: int) -> UInt8:
    if len(body) != 4 * width * height:
        raise SettingsError(
            f"expected {4 * width * height} bytes of RGBA pixels, found {len(body)}"
        )
    pixels = np.frombuffer(body, np.uint8).reshape(height, width, 4)
    return np.ascontiguousarray(pixels[..., :3])


def _read_photo(content: bytes, limits: ServeLimits) -> tuple[bytes, str]:
    """Turn an uploaded file into a PNG of the size that is searched; also return its own size."""
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
                "learnt": one.learnt,
                "methods": [name for name, (own, _) in SHOWN.items() if own in one.models],
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


def _add_errors(app: FastAPI) -> None:
    """Make whatever goes wrong one line of text, in JSON."""

    def answer(status: int, line: str) -> JSONResponse:
        return JSONResponse({"error": line}, status)

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
