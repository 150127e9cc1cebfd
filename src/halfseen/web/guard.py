"""What the server accepts: whose requests, how large, how slow, and how many."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from os import cpu_count

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATIENCE = 4
"""How many times its limit a body may reach before the connection is closed on it."""

LONGEST_PATH = 2000  # characters of an address, and of what follows its question mark

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
    """Upper bounds of one server.

    upload_bytes   bytes of a photo's file
    upload_pixels  pixels of a photo, checked by its header before it is decoded
    side           longer side of the picture that is searched; larger photos are shrunk
    body_seconds   time in which a request's body must arrive
    workers        threads that compute
    waiting        requests whose body is in memory while they wait for a thread; further ones
                   are not read before their turn
    connections    beyond them, uvicorn answers 503
    """

    upload_bytes: int = 20 * 2**20
    upload_pixels: int = 50_000_000
    side: int = 768
    body_seconds: float = 20.0
    workers: int = cpu_count() or 1
    waiting: int = 16
    connections: int = 256


class Refused(Exception):
    """A request that is not served: an HTTP status, and one line that says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Guard:
    """Middleware that passes only requests of this server's own page, and of programs.

    The Host must be localhost, an address, or a name that the user gave: a stranger's page whose
    domain has been pointed here (DNS rebinding) sends that domain's name. An Origin must be this
    server itself.
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
        if len(scope["path"]) > LONGEST_PATH or len(scope["query_string"]) > LONGEST_PATH:
            why = f"expected an address of at most {LONGEST_PATH} characters"
        if why is None:
            await self.app(scope, receive, send_guarded)
        else:
            await JSONResponse({"error": why}, 403)(scope, receive, send_guarded)

    def objection(self, method: str, headers: Headers) -> str | None:
        """Return why a request is refused, or None."""
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


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the body, or raise Refused where it is larger or slower than allowed.

    A little too much is read and discarded: most clients read an answer only when they have sent
    everything.
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
