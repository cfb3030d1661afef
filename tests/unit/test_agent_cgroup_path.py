"""Processes to pods: every layout of cgroup paths that kubelets and runtimes make."""

from __future__ import annotations

import pytest

from tensorfusion_iac.agent.cgroup_path import DUTY, place_at, place_of, pod_directory

UID = "0f2c7f8e-1d3a-4b5c-9d6e-7f8091a2b3c4"
SYSTEMD_UID = UID.replace("-", "_")
ID = "5d" * 32
STATIC = "9f" * 16
SLICE = "/kubepods.slice/kubepods-burstable.slice"

PATHS = {
    "cgroupfs, burstable, containerd": f"/kubepods/burstable/pod{UID}/{ID}",
    "cgroupfs, guaranteed": f"/kubepods/pod{UID}/{ID}",
    "cgroupfs, CRI-O": f"/kubepods/besteffort/pod{UID}/crio-{ID}",
    "systemd, containerd": f"{SLICE}/kubepods-burstable-pod{SYSTEMD_UID}.slice/cri-containerd-{ID}.scope",
    "systemd, guaranteed": f"/kubepods.slice/kubepods-pod{SYSTEMD_UID}.slice/cri-containerd-{ID}.scope",
    "systemd, CRI-O": f"{SLICE}/kubepods-burstable-pod{SYSTEMD_UID}.slice/crio-{ID}.scope",
    "systemd, Docker": f"{SLICE}/kubepods-burstable-pod{SYSTEMD_UID}.slice/docker-{ID}.scope",
    "below a kubelet's own root": f"/kubelet/kubepods/burstable/pod{UID}/{ID}",
    "kind, systemd": f"/system.slice/docker-{'ab' * 32}.scope/kubelet.slice/kubelet-kubepods.slice"
    f"/kubelet-kubepods-pod{SYSTEMD_UID}.slice/cri-containerd-{ID}.scope",
}


@pytest.mark.parametrize("layout", PATHS)
def test_the_pod_and_the_container_are_found(layout: str) -> None:
    place = place_at(PATHS[layout])
    assert place is not None
    assert (place.pod_uid, place.container_id, place.relative) == (UID, ID, False)
    assert (place.container, place.own) == (PATHS[layout], PATHS[layout])
    assert PATHS[layout].startswith(place.pod + "/")


@pytest.mark.parametrize("layout", PATHS)
def test_a_process_in_our_child_or_a_nested_cgroup_is_in_the_same_container(layout: str) -> None:
    for below, own in ((f"/{DUTY}", ""), ("/init.scope", "/init.scope"), (f"/container/{DUTY}", "/container")):
        place = place_at(PATHS[layout] + below)
        assert place is not None
        assert (place.container, place.own) == (PATHS[layout], PATHS[layout] + own)


def test_a_static_pod_has_a_hash_for_a_uid() -> None:
    place = place_at(f"/kubepods/burstable/pod{STATIC}/{ID}")
    assert place is not None
    assert place.pod_uid == STATIC


def test_a_path_from_inside_a_cgroup_namespace_is_relative() -> None:
    place = place_at(f"/../../pod{UID}/{ID}/{DUTY}")
    assert place is not None
    assert (place.pod_uid, place.container_id, place.container, place.relative) == (UID, ID, f"/pod{UID}/{ID}", True)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/user.slice/user-0.slice/session-1.scope",
        f"/kubepods/burstable/pod{UID}",
        f"{SLICE}/kubepods-burstable-pod{SYSTEMD_UID}.slice/crio-conmon-{ID}.scope",
        f"/system.slice/docker-{ID}.scope",
        "/kubepods/burstable/podnonsense/abc",
    ],
)
def test_what_is_no_container_of_a_pod_is_nothing(path: str) -> None:
    assert place_at(path) is None


def test_the_v2_line_is_taken_first_then_the_freezer() -> None:
    v1 = f"9:name=systemd:/kubepods/pod{UID}/{ID}/a\n6:freezer:/kubepods/pod{UID}/{ID}/b\n4:memory:/x\n"
    hybrid = v1 + f"0::/kubepods/pod{UID}/{ID}\n"
    found = [place_of(text) for text in (v1, hybrid)]
    assert [place.own.rpartition("/")[2] for place in found if place] == ["b", ID]


def test_a_hybrid_node_whose_v2_line_says_nothing_falls_back_to_v1() -> None:
    place = place_of(f"6:freezer:/kubepods/pod{UID}/{ID}\n0::/\n")
    assert place is not None
    assert place.pod_uid == UID


def test_a_cgroup_that_was_just_removed_still_tells_its_pod() -> None:
    place = place_of(f"0::/kubepods/pod{UID}/{ID} (deleted)\n")
    assert place is not None
    assert place.container.endswith(ID)


@pytest.mark.parametrize("text", ["", "garbage", "0::", "1:a", "::::", "\x00"])
def test_garbage_is_nothing(text: str) -> None:
    assert place_of(text) is None


def test_the_directory_of_a_pod_is_known_by_its_name() -> None:
    assert pod_directory(f"kubepods-burstable-pod{SYSTEMD_UID}.slice") == UID
    assert pod_directory(f"pod{UID}") == UID
    assert pod_directory("kubepods-burstable.slice") is None
