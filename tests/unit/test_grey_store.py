"""Where the claims of a grey release are kept: in one ConfigMap per owner, whatever the owner calls itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tensorfusion_iac.admission.claims import Wish
from tensorfusion_iac.admission.grey import GreyRelease, GreyRequest
from tensorfusion_iac.api import Owner
from tensorfusion_iac.kube.client import Listing
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import CONFIG_MAPS, Resource


class EmptyClient:
    """A cluster without pods, which keeps the names that it is asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Listing:
        return Listing([], "1")

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        self.names.append(name)
        raise ApiError(404, "NotFound", f"{resource.plural} {name} not found")

    async def create(self, resource: Resource, body: dict[str, Any], namespace: str | None = None, **options: Any) -> None:
        self.names.append(body["metadata"]["name"])


def kept_in(uid: str) -> str:
    """The name of the ConfigMap that is read and created for an owner."""
    client: Any = EmptyClient()
    request = GreyRequest("ml", Owner("ReplicaSet", "chat", uid), {}, Wish("r1", 1))
    assert asyncio.run(GreyRelease(client).claim(request)) == "r1"
    (name,) = set(client.names)
    return str(name)


def test_an_owner_is_told_by_its_uid() -> None:
    uid = "1b6ae5a4-93cd-4d2c-8f3f-0d5a4e2a1c77"
    assert kept_in(uid) == kept_in(uid.upper()) == f"tensor-fusion-grey-{uid}"


@pytest.mark.parametrize("uid", ["x/../../secrets/token", "..", "", "a b", "-a", "a-", "ä", "a?b", "a" * 65, "a\n"])
def test_a_uid_that_is_none_names_a_config_map_all_the_same(uid: str) -> None:
    name = kept_in(uid)
    assert CONFIG_MAPS.path("ml", name).endswith(f"/configmaps/{name}")
    digest = name.removeprefix("tensor-fusion-grey-")
    assert len(digest) == 64
    assert set(digest) <= set("0123456789abcdef")
