"""A card of the planning, from the `GPU` object that an agent writes."""

from __future__ import annotations

from typing import Any

import pytest

from tensorfusion_iac.planning.cards import read_card


def _gpu(**status: Any) -> dict[str, Any]:
    facts = {"uuid": "GPU-a", "nodeName": "n", "capacity": {"tflops": "312", "vram": "80Gi"}, "model": "A100_SXM_80G"}
    return {"status": facts | status}


def test_cards_at_the_other_end_of_a_link_are_its_peers() -> None:
    card = read_card(_gpu(nvLink={"peers": [{"peerUUID": "GPU-b", "linkCount": 12}, {"peerUUID": "GPU-c"}, {"linkCount": 1}]}))
    assert card is not None
    assert card.peers == {"GPU-b", "GPU-c"}


@pytest.mark.parametrize("links", [None, {}, {"peers": None}, [], "junk", {"peers": ["junk"]}])
def test_a_card_without_links_has_no_peers(links: Any) -> None:
    card = read_card(_gpu(nvLink=links))
    assert card is not None
    assert card.peers == frozenset()


@pytest.mark.parametrize("missing", ["uuid", "nodeName", "capacity"])
def test_a_card_that_says_too_little_is_none_yet(missing: str) -> None:
    assert read_card(_gpu(**{missing: None})) is None
