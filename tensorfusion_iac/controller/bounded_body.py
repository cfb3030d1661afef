"""Reads another party's answer, which can't make us hold as much as it likes: agents' histories and external scalers'."""

from __future__ import annotations

import aiohttp


async def bounded_body(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """The body. ValueError if it is larger."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most_bytes:
            raise ValueError(f"its answer is larger than {most_bytes} bytes")
    return bytes(body)
