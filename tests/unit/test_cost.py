"""What a worker costs: a pool's price list before the catalogue, the larger of its two parts, and no guess."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tensorfusion_iac.api import WorkerSpec, resolve
from tensorfusion_iac.api.catalogue import find
from tensorfusion_iac.api.resources import GPUPool
from tensorfusion_iac.planning.cards import cards_named
from tensorfusion_iac.planning.cost import Price, prices

A100 = find("A100_SXM_80G")[0]


def worker(**annotations: str) -> WorkerSpec:
    keys = {f"tensor-fusion.ai/{name.replace('_', '-')}": value for name, value in annotations.items()}
    pod = {
        "metadata": {"name": "p", "labels": {"tensor-fusion.ai/enabled": "true"}, "annotations": keys},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    found = resolve(pod)
    assert found.worker is not None, found.problems
    return found.worker


def price(asking: WorkerSpec, its_pool: GPUPool | None = None) -> Price | None:
    """The least that it may be, of the catalogue's cards."""
    return next(iter(prices(asking, its_pool, cards_named(asking.gpu_model))), None)


def pool(**pricing: Any) -> GPUPool:
    spec = {"qosConfig": {"pricing": [{"qos": "medium", **pricing}]}}
    return GPUPool.model_validate({"metadata": {"name": "p"}, "spec": spec})


HALF_TFLOPS = str(A100.fp16_tflops / 2)


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({"vram_request": "8Gi", "tflops_request": HALF_TFLOPS}, Decimal("0.5")),
        ({"vram_request": "40Gi", "tflops_request": "1"}, Decimal("0.5")),
        ({"vram_request": "20Gi", "compute_percent_request": "75"}, Decimal("0.75")),
        ({"dedicated_gpu": "true"}, Decimal(1)),
        ({"vram_request": "20Gi", "compute_percent_request": "75", "gpu_count": "2"}, Decimal("1.5")),
        ({"isolation": "partitioned", "partition_template": "3g.40gb"}, Decimal("0.5")),
        ({"isolation": "partitioned", "vram_request": "15Gi", "tflops_request": "1"}, Decimal("0.25")),
    ],
)
def test_the_larger_part_of_a_card_is_paid_on_every_gpu(asked: dict[str, str], part: Decimal) -> None:
    found = price(worker(gpu_model=A100.name, **asked))
    assert found is not None
    assert A100.usd_per_hour is not None
    assert found.usd_per_hour == A100.usd_per_hour * part
    assert found.source == f"catalogue, {A100.name} at {A100.usd_per_hour} USD an hour"


def test_of_the_cards_that_a_family_allows_the_cheapest_counts() -> None:
    found = price(worker(gpu_model="A100", compute_percent_request="100", vram_request="1Gi"))
    assert found is not None
    assert found.usd_per_hour == min(card.usd_per_hour for card in find("A100") if card.usd_per_hour is not None)


def test_a_pools_price_list_comes_first() -> None:
    listed = pool(requests={"perFP16TFlopsPerHour": "$0.01", "perGBOfVRAMPerHour": "0.02"}, limitsOverRequests="0.5")
    asked = worker(tflops_request="10", tflops_limit="30", vram_request="5G", vram_limit="5G", gpu_count="2")
    found = price(asked, listed)
    assert found is not None
    assert found.usd_per_hour == 2 * (Decimal("0.01") * (10 + Decimal("0.5") * 20) + Decimal("0.02") * 5)
    assert found.source == "GPUPool p, qosConfig.pricing of medium"


@pytest.mark.parametrize(("limit", "above"), [({}, A100.fp16_tflops - 10), ({"tflops_limit": "30"}, Decimal(20))])
def test_a_limit_is_paid_above_the_request_and_without_one_it_is_the_whole_card(limit: dict[str, str], above: Decimal) -> None:
    listed = pool(requests={"perFP16TFlopsPerHour": "1"}, limitsOverRequests="0.5")
    found = price(worker(gpu_model=A100.name, tflops_request="10", vram_request="5G", **limit), listed)
    assert found is not None
    assert found.usd_per_hour == 10 + above / 2


def test_a_percentage_of_a_card_that_nothing_names_has_no_price_by_tflops() -> None:
    assert price(worker(compute_percent_request="50", vram_request="1Gi"), pool(requests={"perFP16TFlopsPerHour": "1"})) is None


def test_the_cards_that_it_may_get_are_priced_each_the_cheapest_first() -> None:
    asked = worker(gpu_model="A100", dedicated_gpu="true")
    found = [price.usd_per_hour for price in prices(asked, None, cards_named("A100"))]
    assert found == sorted(card.usd_per_hour for card in find("A100") if card.usd_per_hour is not None)
    assert len(found) > 1


def test_without_a_model_or_a_price_list_there_is_no_price() -> None:
    assert price(worker(vram_request="4Gi", tflops_request="10")) is None
    assert price(worker(vram_request="4Gi", tflops_request="10", gpu_model="Unheard_Of")) is None
    assert price(worker(qos="high", vram_request="4Gi", tflops_request="1"), pool(requests={"perFP16TFlopsPerHour": "1"})) is None
