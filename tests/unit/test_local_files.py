"""What a control plane keeps on disk: its folder, its settings, its locks and its logs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
from pathlib import Path

import pytest

from tensorfusion_iac.local import locks, logs
from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.fleet import DEFAULT_GROUPS
from tensorfusion_iac.local.layout import Layout, write_private, write_private_if_changed
from tensorfusion_iac.local.state import Ports, Runtime, Settings, load_runtime, load_settings, save

PORTS = Ports(
    apiserver=20001,
    etcd=20002,
    etcd_peer=20003,
    controller_manager=20004,
    scheduler=20005,
    kwok=20006,
    webhook=20007,
    extender=20008,
    controller=20009,
    simulated_agents=20010,
)
SETTINGS = Settings(ports=PORTS, groups=DEFAULT_GROUPS, tools={"etcd": Path("/bin/etcd")})


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout.at(tmp_path / "local")
    made.prepare()
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_is_private(layout: Layout) -> None:
    assert {mode(path) for path in (layout.root, layout.own, layout.pki, layout.logs)} == {0o700}


def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    made = Layout.at(tmp_path)
    made.prepare()
    assert (mode(tmp_path), mode(made.own)) == (0o755, 0o700)


def test_a_folder_that_cannot_be_made_is_one_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match=r"cannot keep the control plane's files in .*/file: .*; give .* --dir"):
        Layout.at(tmp_path / "file").prepare()


def test_two_spellings_of_a_folder_are_one_control_plane(tmp_path: Path) -> None:
    assert Layout.at(tmp_path / "a" / ".." / "b") == Layout.at(tmp_path / "b")


def test_purge_leaves_what_others_put_there(layout: Layout) -> None:
    layout.kubeconfig.touch()
    layout.log("etcd").touch()
    (layout.root / "pulumi").mkdir()
    (layout.logs / "mine.log").touch()
    layout.purge(["etcd", "kwok"])
    assert sorted(path.name for path in layout.root.rglob("*")) == ["logs", "mine.log", "pulumi"]


def test_purge_removes_the_folder_when_nothing_else_is_in_it(layout: Layout) -> None:
    save(layout.settings, SETTINGS)
    layout.purge([])
    assert not layout.root.exists()


def test_a_private_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    path.chmod(0o644)
    with path.open() as reader:
        write_private(path, b"new")
        assert reader.read() == "old"
    assert (path.read_bytes(), mode(path), list(tmp_path.iterdir())) == (b"new", 0o600, [path])


def test_a_file_that_says_the_same_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_private(path, b"same")
    before = path.stat().st_ino
    write_private_if_changed(path, b"same")
    assert path.stat().st_ino == before
    write_private_if_changed(path, b"other")
    assert path.read_bytes() == b"other"


def test_settings_come_back_as_they_were_saved(layout: Layout) -> None:
    assert load_settings(layout.settings) is None
    save(layout.settings, SETTINGS)
    assert load_settings(layout.settings) == SETTINGS


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "Invalid JSON"),
        (SETTINGS.model_dump_json()[:80], "Invalid JSON"),
        ("[]", "object"),
        (SETTINGS.model_dump_json().replace("20001", "0"), "ports.apiserver"),
        (SETTINGS.model_dump_json().replace('"schema_version":1', '"schema_version":2'), "schema_version"),
    ],
)
def test_unreadable_settings_are_one_error_that_names_the_file(layout: Layout, content: str, what: str) -> None:
    layout.settings.write_text(content)
    with pytest.raises(LocalError, match=what) as error:
        load_settings(layout.settings)
    assert str(layout.settings) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [None, "", "{", '{"supervisor_pid": "x"}'])
def test_an_unreadable_runtime_record_is_none(layout: Layout, content: str | None) -> None:
    if content is not None:
        layout.runtime.write_text(content)
    assert load_runtime(layout.runtime) is None


def test_a_runtime_record_comes_back(layout: Layout) -> None:
    record = Runtime(supervisor_pid=1, started_at=2.5, processes=())
    save(layout.runtime, record)
    assert load_runtime(layout.runtime) == record


def test_a_held_lock_is_seen_waited_for_and_told(tmp_path: Path) -> None:
    path, told = tmp_path / "lock", []
    assert not locks.is_held(path)
    with locks.locked(path, 0):
        assert locks.is_held(path)
        with (
            pytest.raises(LocalError, match=r"another process has held .*/lock"),
            locks.locked(path, 0, lambda: told.append("waiting")),
        ):
            raise AssertionError
    assert not locks.is_held(path)
    assert told == ["waiting"]


def test_a_lock_on_a_file_that_was_replaced_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locks.locked(path, 0):
        path.unlink()
        with locks.locked(path, 0):  # the newcomer's file is another one
            assert locks.is_held(path)


def _hold(path: Path, ready: multiprocessing.synchronize.Event) -> None:
    with locks.locked(path, 0):
        ready.set()
        signal.pause()


def test_a_lock_goes_with_its_killed_holder(tmp_path: Path) -> None:
    path, context = tmp_path / "lock", multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(path, ready))
    holder.start()
    assert ready.wait(30)
    assert locks.is_held(path)
    os.kill(holder.pid or 0, signal.SIGKILL)
    holder.join()
    assert not locks.is_held(path)


def test_the_end_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "etcd.log"
    path.write_bytes(b"one\ntwo\n\xff\n")
    assert logs.tail(path, 2) == ["two", "\ufffd"]


def test_logs_are_chosen_by_name(layout: Layout) -> None:
    with pytest.raises(LocalError, match="there are no logs in"):
        logs.select(layout, None)
    layout.log("etcd").touch()
    layout.log("kwok").touch()
    layout.older_log("kwok").touch()
    assert logs.select(layout, None) == [layout.log("etcd"), layout.log("kwok")]
    assert logs.select(layout, "kwok") == [layout.log("kwok")]
    with pytest.raises(LocalError, match='no log of "x"; there are: etcd, kwok'):
        logs.select(layout, "x")


def test_following_gives_whole_new_lines_also_of_a_log_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "etcd.log"
    path.write_bytes(b"old\n")
    contents = iter([b"old\nne", b"old\nnew\n", b"x\n"])

    def wait(_: float) -> None:
        path.write_bytes(next(contents))

    followed = logs.follow([path], wait)
    assert [next(followed), next(followed)] == [(path, "new"), (path, "x")]
