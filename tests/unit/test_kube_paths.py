"""The URL paths of objects: whatever a name is, it names an object of its own collection."""

from __future__ import annotations

import pytest
import yarl

from tensorfusion_iac.kube.resource import CONFIG_MAPS, CRDS, DEPLOYMENTS, PODS


def test_paths_are_those_of_the_kubernetes_api() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ml", "chat-0", "binding") == "/api/v1/namespaces/ml/pods/chat-0/binding"
    assert DEPLOYMENTS.path("ml", "chat") == "/apis/apps/v1/namespaces/ml/deployments/chat"
    assert CRDS.path(name="gpus.tensor-fusion.ai").endswith("/customresourcedefinitions/gpus.tensor-fusion.ai")


@pytest.mark.parametrize("name", ["x/../../secrets/token", "a?watch=true", "a#b", "a%2F..%2Fb", "a b", "ä"])
def test_a_name_stays_one_segment_of_the_path(name: str) -> None:
    url = yarl.URL("https://localhost" + CONFIG_MAPS.path("ml", name))  # as the client's library reads it
    assert url.raw_path.count("/") == 6
    assert (url.parts[-2:], url.query_string, url.fragment) == (("configmaps", name), "", "")


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_would_lead_up_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no object is called"):
        CONFIG_MAPS.path("ml", name)
