"""Which ports a control plane gets: its old ones, the one asked for, or new ones."""

from __future__ import annotations

import os
import socket
from itertools import count

import psutil
import pytest

from tensorfusion_iac.local import ports
from tensorfusion_iac.local.errors import LocalError
from tensorfusion_iac.local.state import Ports

OLD = Ports(
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


def all_free(port: int) -> bool:
    return True


def test_remembered_ports_are_kept() -> None:
    assert ports.choose(OLD, None, all_free) == ports.Choice(OLD, {})


def test_new_ports_are_distinct_even_if_the_same_one_is_drawn_twice() -> None:
    drawn = iter([7000, 7000, 7000, 7001, 7001, *range(7002, 7010)])
    chosen = ports.choose(None, None, all_free, lambda: next(drawn)).ports
    assert list(chosen.model_dump().values()) == list(range(7000, 7010))


def test_a_busy_remembered_port_is_replaced_and_told() -> None:
    choice = ports.choose(OLD, None, lambda port: port != 20002, lambda: 7000)
    assert choice == ports.Choice(OLD.model_copy(update={"etcd": 7000}), {"etcd": 20002})


def test_the_port_asked_for_is_the_api_servers() -> None:
    assert ports.choose(OLD, 6443, all_free).ports == OLD.model_copy(update={"apiserver": 6443})


def test_a_remembered_port_that_is_now_asked_for_by_the_user_moves() -> None:
    choice = ports.choose(OLD, 20002, all_free, lambda: 7000)
    assert (choice.ports.apiserver, choice.ports.etcd) == (20002, 7000)


def test_busy_candidates_are_passed_over() -> None:
    numbers = count(7000)
    chosen = ports.choose(None, None, lambda port: port % 2 == 1, lambda: next(numbers)).ports
    assert all(port % 2 == 1 for port in chosen.model_dump().values())


def test_it_gives_up_when_nothing_is_free() -> None:
    with pytest.raises(LocalError, match="no free port found"):
        ports.choose(None, None, lambda port: False)


def test_a_busy_port_that_was_asked_for_is_one_error_that_names_its_process() -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        port = server.getsockname()[1]
        me = psutil.Process()
        with pytest.raises(LocalError, match=rf"port {port} is in use on 127.0.0.1 by .+ \(process {os.getpid()}\)") as error:
            ports.choose(None, port, ports.is_free)
    assert me.name() in str(error.value)


def test_a_listening_port_is_not_free_and_a_closed_one_is() -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        port = server.getsockname()[1]
        assert not ports.is_free(port)
    assert ports.is_free(port)
