"""What the server accepts from strangers: whose requests, how large, how slow, and how many."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from os import cpu_count
from typing import Any, TypeVar

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Result = TypeVar("Result")

PATIENCE = 4
"""How many times its limit a body may reach before the connection is closed on it."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class ServeLimits:
    """What one server does at most.

    upload_bytes   of a photo's file
    upload_pixels  of a photo, judged by its header before it is decoded
    side           of the picture that is worked on, the longer one; larger photos are shrunk
    body_seconds   in which a request's body must have come
    workers        threads that compute
    waiting        requests that may wait for one of them; more are refused
    """

    upload_bytes: int = 20 * 2**20
    upload_pixels: int = 50_000_000
    side: int = 1024
    body_seconds: float = 20.0
    workers: int = cpu_count() or 1
    waiting: int = 16


class Refused(Exception):
    """A request that is not served: an HTTP status, and one line that says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Guard:
    """Lets through only requests of this server's own page, and of programs on their own behalf.

    The Host must be localhost, an address, or a name that the user gave: a stranger's page whose
    domain has been pointed here (DNS rebinding) comes with that domain's name. An Origin must be
    this server itself.
    """

    def __init__(self, app: ASGIApp, names: Collection[str] = ()) -> None:
        self.app = app
        self.names = {name.lower() for name in names} | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server's own start and end
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        why = self.objection(scope["method"], Headers(scope=scope))
        if why is None:
            await self.app(scope, receive, send_guarded)
        else:
            await JSONResponse({"error": why}, 403)(scope, receive, send_guarded)

    def objection(self, method: str, headers: Headers) -> str | None:
        """Why a request is refused, or None."""
        host = headers.get("host", "")
        if not self._is_own(host):
            return f"this server answers to localhost and addresses only, not to {host[:100]!r}"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return f"requests from other sites are refused, found origin {origin[:100]!r}"
        visited = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not visited:
            return "requests from other sites are refused"
        return None

    def _is_own(self, host: str) -> bool:
        name, port = host, ""
        if ":" in host.rpartition("]")[2]:
            name, _, port = host.rpartition(":")
        if port and not (port.isascii() and port.isdigit()):
            return False
        if name.lower() in self.names:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True


class Desk:
    """Where requests wait for a thread: bounded, so that a crowd is told to come back later."""

    def __init__(self, limits: ServeLimits) -> None:
        self.pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="halfseen")
        self.places = limits.workers + limits.waiting
        self.taken = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place from the first byte of the body to the answer; Refused where all are taken."""
        if self.taken >= self.places:
            raise Refused(503, f"busy: {self.taken} requests are waiting already; try again soon")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Calls a function on a thread, so that the server goes on listening."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, function, *arguments)


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The body, or Refused where it is larger or slower than allowed.

    A little too much is read and thrown away: most clients hear an answer only when they have
    sent everything.
    """
    refused = Refused(413, f"larger than the limit of {most / 2**20:.3g} MiB")
    stated = request.headers.get("content-length", "0")
    if not (stated.isascii() and stated.isdigit()) or int(stated) > PATIENCE * most:
        raise refused
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= most:
                    body += chunk
                elif size > PATIENCE * most:
                    break
    except TimeoutError:
        raise Refused(408, f"the request took longer than {seconds:g} seconds to arrive") from None
    except ClientDisconnect:
        raise Refused(400, "the connection was closed") from None
    if size > most:
        raise refused
    return bytes(body)
