"""Load on the page's server: python tests/load.py [--connections 200] [--seconds 60].

Starts `halfseen serve` on a free port of loopback and lets many connections, each kept open, ask
for pages, scenes, looks at small pictures and photographs, good and bad. Prints one line of JSON
last: requests, answers by status, requests without an answer, the median, 99th percentile and
largest time of an answer in milliseconds, and by how much the server's memory grew from the first
fifth of the time, after which all caches are filled, to the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

PAGE = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


def make_requests() -> list[bytes]:
    """Return requests as bytes, cheap ones more often than dear ones."""
    pixels = np.random.default_rng(0).integers(0, 256, (96, 128, 4), np.uint8).tobytes()
    look = b"/api/look?width=128&height=96"
    posts = [(look, pixels), (look, pixels[:-1]), (b"/api/photo", b"not an image"), (look, b"")]
    pages = [b"/", b"/page.js", b"/api/setup", b"/api/scenes/1/thumbnail.jpg", b"/nothing"]
    found = [PAGE % page for page in pages * 4]
    return found + [POST % (path, len(body)) + body for path, body in posts]


class Load:
    """What many connections saw."""

    def __init__(self, port: int, end: float) -> None:
        self.port, self.end = port, end
        self.requests = make_requests()
        self.times: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.unanswered = 0

    async def connection(self, seed: int) -> None:
        """Ask again and again over one connection, and open another where it was closed."""
        rng = random.Random(seed)
        while time.monotonic() < self.end:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                self.unanswered += 1
                await asyncio.sleep(0.1)
                continue
            with contextlib.suppress(OSError):
                while time.monotonic() < self.end and await self.ask(reader, writer, rng):
                    pass
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rng: random.Random
    ) -> bool:
        """Send one request and read its answer; return whether the connection stays open."""
        start = time.monotonic()
        try:
            writer.write(rng.choice(self.requests))
            await writer.drain()
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
            lines = head.lower().split(b"\r\n")
            length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
            await asyncio.wait_for(reader.readexactly(length), 120)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self.unanswered += 1
            return False
        self.times.append(time.monotonic() - start)
        self.statuses[int(lines[0].split()[1])] += 1
        return b"connection: close" not in lines


def memory(pid: int) -> int:
    """Return the resident bytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def run(port: int, pid: int, connections: int, seconds: float) -> dict[str, object]:
    """Load a server and return the figures."""
    load = Load(port, time.monotonic() + seconds)
    tasks = [asyncio.create_task(load.connection(n)) for n in range(connections)]
    await asyncio.sleep(seconds / 5)
    first = memory(pid)
    await asyncio.gather(*tasks)
    milliseconds = np.array(load.times) * 1000
    return {
        "connections": connections,
        "seconds": seconds,
        "requests": len(load.times) + load.unanswered,
        "statuses": {str(status): count for status, count in sorted(load.statuses.items())},
        "unanswered": load.unanswered,
        "median_ms": round(float(np.median(milliseconds))),
        "p99_ms": round(float(np.percentile(milliseconds, 99))),
        "slowest_ms": round(float(milliseconds.max())),
        "memory_mib": memory(pid) >> 20,
        "growth": round(memory(pid) / first - 1, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    command = [sys.executable, "-m", "halfseen", "serve", "--port", "0", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1])
            figures = asyncio.run(run(port, server.pid, options.connections, options.seconds))
        finally:
            server.terminate()
    print(json.dumps(figures))
    wrong = {"500"} & set(figures["statuses"])  # type: ignore[call-overload]
    return 1 if figures["unanswered"] or wrong or float(str(figures["growth"])) > 0.05 else 0


if __name__ == "__main__":
    sys.exit(main())
