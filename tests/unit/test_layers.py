"""What profile, pool and quota give a pod: read once per object, never stale, never part of what an object is."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from resolving import a_pool, a_profile, a_quota

from tensorfusion_iac.api import Isolation, QoS
from tensorfusion_iac.api.resources.gpupool import GPUPoolSpec
from tensorfusion_iac.api.resources.quota import QuotaSpec

MAKERS: list[Callable[[], Any]] = [
    lambda: a_profile({"qos": "high"}).spec,
    lambda: a_pool({"qosConfig": {"defaultQoS": "low"}}),
    lambda: a_quota({"defaultRequests": {"tflops": 5}}),
]


@pytest.mark.parametrize("make", MAKERS)
def test_an_object_is_the_same_before_and_after_it_is_read(make: Callable[[], Any]) -> None:
    read, unread = make(), make()
    assert read.layer()
    assert read == unread
    assert read.model_dump() == unread.model_dump()
    assert copy.deepcopy(read) == pickle.loads(pickle.dumps(read)) == unread


@pytest.mark.parametrize("make", MAKERS)
def test_an_object_is_read_once(make: Callable[[], Any]) -> None:
    one = make()
    assert one.layer() is one.layer()


def test_a_changed_copy_gives_what_it_says_now() -> None:
    profile = a_profile({"qos": "high"}).spec
    assert profile.layer() == {"qos": QoS.HIGH}
    assert profile.model_copy(update={"qos": QoS.LOW}).layer() == {"qos": QoS.LOW}
    assert profile.model_copy(deep=True).layer() == {"qos": QoS.HIGH}
    pool = a_pool()
    assert pool.layer() == {"is-local-gpu": True}
    hard = GPUPoolSpec.model_validate({"nodeManagerConfig": {"defaultIsolationMode": "hard"}})
    assert pool.model_copy(update={"spec": hard}).layer() == {"isolation": Isolation.HARD}
    quota = a_quota({"defaultRequests": {"tflops": 5}})
    assert list(quota.layer()) == ["tflops-request"]
    assert quota.model_copy(update={"spec": QuotaSpec()}).layer() == {}
