"""A bucket for Pulumi's state, on moto's S3 server on the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

REGION = "us-east-1"


@dataclass(frozen=True)
class Bucket:
    """One bucket, and how Pulumi is pointed at it."""

    name: str
    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """For Pulumi; the keys of a server that asks for none."""
        keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": REGION}
        return keys | {"AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required"}  # moto gives none, and each answer would be warned of

    @property
    def url(self) -> str:
        """The backend's URL. Amazon's own S3 needs neither endpoint nor path style."""
        return f"s3://{self.name}?endpoint={self.endpoint}&s3ForcePathStyle=true&region={REGION}"

    def keys(self, prefix: str) -> list[str]:
        """The names of the objects that begin so."""
        found = self.client().list_objects_v2(Bucket=self.name, Prefix=prefix)
        return [str(item["Key"]) for item in found.get("Contents", ())]

    def client(self) -> Any:
        return boto3.client(
            "s3", endpoint_url=self.endpoint, region_name=REGION, aws_access_key_id="any", aws_secret_access_key="any"
        )


@contextmanager
def bucket(name: str) -> Iterator[Bucket]:
    """A server with one empty bucket, for the length of the block."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        made = Bucket(name, f"http://{host}:{port}")
        made.client().create_bucket(Bucket=name)
        yield made
    finally:
        server.stop()
