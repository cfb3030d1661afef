"""Makes the real nodes of a control plane possible before it starts, and removes what they left when they did not end well.

Programs, compiled cards, images, certificates' names and configuration; then a free network for them on this machine.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

from tensorfusion_iac.kube.client import Client
from tensorfusion_iac.kube.errors import ApiError
from tensorfusion_iac.kube.resource import NODES
from tensorfusion_iac.local import certs
from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.images.made import write_images
from tensorfusion_iac.local.layout import Layout
from tensorfusion_iac.local.real_nodes import files, preconditions
from tensorfusion_iac.local.real_nodes.loading import load_images
from tensorfusion_iac.local.real_nodes.network import remove_links
from tensorfusion_iac.local.real_nodes.outside import end_left, first_pid, nodes_of
from tensorfusion_iac.local.real_nodes.plan import CARD_GIB, CARD_MODEL, CARDS_PER_NODE, RealNode, choose_number
from tensorfusion_iac.local.state import load_settings
from tensorfusion_iac.local.toolchain import Places, debian, ensure, locate
from tensorfusion_iac.local.toolchain.recipe import load
from tensorfusion_iac.local.virtual_gpus.build import build
from tensorfusion_iac.local.virtual_gpus.cards import Fake

Say = Callable[[str], None]
GROUP = "node"
"""Of the tool chain."""


def tools(layout: Layout, say: Say) -> dict[str, Path]:
    """The programs of a node; they are built where they are not there yet. LocalError if real nodes can't be had here."""
    preconditions.demand(layout.root)
    return ensure(load().selected([GROUP]), lambda line: None if " from " in line else say(line)) | {
        "nft": debian.provide("nft", "nftables", say)
    }


def network_number(remembered: int | None) -> int:
    """A network that nothing on this machine uses. LocalError if there is none."""
    number = choose_number(remembered, _networks_in_use())
    if number is None:
        raise LocalError("all of 10.89.0.0/16 and 10.90.0.0/16 is in use on this machine, where real nodes have their addresses")
    return number


def write(nodes: tuple[RealNode, ...], pki: certs.Pki, port: int, tools: Mapping[str, Path], say: Say) -> None:
    """Compile, make images and write all configuration. The last node's folder is there when it is done."""
    layout = nodes[0].layout
    layout.real_nodes.mkdir(mode=0o700, exist_ok=True)
    say("making the images of the real nodes")
    programs = build(files.virtual_gpus_folder(layout))
    scheduler = locate("kube-scheduler")
    version = scheduler.version if scheduler else load().named("kube-scheduler").version
    cache = Places.of(os.environ).cache.root.parent / "images"
    write_images(files.images_folder(layout), programs, tools["kube-scheduler"], version, cache)
    for node in nodes:
        files.write(node, pki, f"https://{node.network.gateway}:{port}", tools)
        _put_cards(node, programs)


def load_archive(layout: Layout, archive: Path) -> list[str]:
    """Load an archive of images on all real nodes; their names. LocalError where there are none, or it can't be read."""
    settings = load_settings(layout.settings)
    nodes = nodes_of(layout, settings) if settings else ()
    pids = {node.name: first_pid(node) for node in nodes}
    if settings is None or not pids or None in pids.values():
        raise LocalError(f"no real nodes run in {layout.root}: `tensorfusion local up --real-nodes 1` starts one")
    if not archive.is_file():
        raise LocalError(f"{archive} is no file")
    for pid in pids.values():
        load_images(archive.absolute(), Path(f"/proc/{pid}/root{files.SOCKET}"), settings.tools)
    return list(pids)


def end(layout: Layout) -> None:
    """Remove what real nodes left: processes, cgroups, links. Does nothing where they ended well."""
    for folder in layout.real_nodes.glob("real-*"):
        end_left(folder)
    remove_links(layout)


async def is_ready(client: Client, node: RealNode) -> bool:
    """Whether the Node object is there and Ready."""
    try:
        found = await client.get(NODES, node.name)
    except ApiError as error:
        if error.not_found:
            return False
        raise
    conditions = found["status"].get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _put_cards(node: RealNode, programs: Path) -> None:
    node.cards.mkdir(exist_ok=True)
    cards = Fake(programs, files.card_state(node))
    for index in range(CARDS_PER_NODE):
        cards.add_card(CARD_MODEL, CARD_GIB, uuid=node.card_uuid(index))
    cards.close()
    files.card_state(node).chmod(0o666)  # jobs of any user put themselves there


def _networks_in_use() -> Iterator[ipaddress.IPv4Network]:
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family is socket.AF_INET:
                yield ipaddress.IPv4Network(f"{address.address}/{address.netmask or '255.255.255.255'}", strict=False)
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        fields = line.split()
        destination, mask = (ipaddress.IPv4Address(bytes.fromhex(fields[at])[::-1]) for at in (1, 7))
        if int(mask):  # not the default route
            yield ipaddress.IPv4Network(f"{destination}/{mask}", strict=False)
