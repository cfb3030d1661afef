"""An API server that answers what it was told to: for informers, where a real one cannot be made to fail at the right moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from tensorfusion_iac.kube.client import Event, Listing


class Script:
    """Answers lists and watches in turn; the last watch never ends. An exception in the place of an answer is raised."""

    def __init__(self, *answers: list[Any] | Exception) -> None:
        self.answers = list(answers)
        self.watched_from: list[str] = []
        self.exhausted = asyncio.Event()

    async def list(self, *_: Any, **__: Any) -> Listing:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Listing(answer, "100")

    async def watch(self, *_: Any, resource_version: str, **__: Any) -> AsyncGenerator[Event, None]:
        self.watched_from.append(resource_version)
        if not self.answers:
            self.exhausted.set()
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        for event in answer:
            yield event
