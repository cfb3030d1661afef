"""The bodies of kube-scheduler's extender protocol (k8s.io/kube-scheduler/extender/v1), as Go writes and reads them.

Anything may arrive: what is not a request of the protocol is a MalformedRequestError, never another exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson


class MalformedRequestError(ValueError):
    """The body is not what the protocol says; the text says in which member."""


@dataclass(frozen=True, slots=True)
class NodesRequest:
    """A filter or prioritize call: the pod as raw JSON, and the candidates' names."""

    pod: Mapping[str, Any]
    nodes: list[str]


@dataclass(frozen=True, slots=True)
class BindRequest:
    """A bind call."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class PreemptRequest:
    """A preempt call: victims (pod UIDs) and disruption budgets violated, by candidate node."""

    pod: Mapping[str, Any]
    victims: Mapping[str, tuple[list[str], int]]


def read_nodes(body: bytes) -> NodesRequest:
    """Read a filter or prioritize call."""
    document = _document(body)
    pod, nodes = _object(document, "Pod"), document.get("NodeNames")
    if nodes is None:
        raise MalformedRequestError("NodeNames is missing: the extender must be configured with nodeCacheCapable")
    if not _are_names(nodes):
        raise MalformedRequestError("NodeNames is not a list of names")
    return NodesRequest(pod, nodes)


def read_bind(body: bytes) -> BindRequest:
    """Read a bind call."""
    document = _document(body)
    values = []
    for member in ("PodNamespace", "PodName", "PodUID", "Node"):
        value = document.get(member)
        if not isinstance(value, str) or not value:
            raise MalformedRequestError(f"{member} is missing")
        values.append(value)
    return BindRequest(*values)


def read_preempt(body: bytes) -> PreemptRequest:
    """Read a preempt call."""
    document = _document(body)
    victims = document.get("NodeNameToMetaVictims")
    if victims is None:
        victims = {}
    if not isinstance(victims, dict):
        raise MalformedRequestError("NodeNameToMetaVictims is not an object")
    try:
        found = {
            node: ([pod["UID"] for pod in of_node.get("Pods") or ()], int(of_node.get("NumPDBViolations") or 0))
            for node, of_node in victims.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MalformedRequestError("NodeNameToMetaVictims does not hold victims") from error
    return PreemptRequest(_object(document, "Pod"), found)


def filter_answer(nodes: Sequence[str], failed: Mapping[str, str]) -> bytes:
    """Nodes that fit. Reasons go where preemption is not tried: evicting by CPU alone would free no GPU (ARCHITECTURE)."""
    return orjson.dumps({"NodeNames": nodes, "FailedNodes": {}, "FailedAndUnresolvableNodes": failed, "Error": ""})


def filter_error(text: str) -> bytes:
    """No answer can be given; kube-scheduler tries the pod again."""
    return orjson.dumps({"NodeNames": [], "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": text})


def prioritize_answer(scores: Sequence[tuple[str, int]]) -> bytes:
    """Scores; nodes left out count 0."""
    return orjson.dumps([{"Host": node, "Score": score} for node, score in scores])


def bind_answer(error: str) -> bytes:
    """Whether the pod is bound: an empty text."""
    return orjson.dumps({"Error": error})


def preempt_answer(victims: Mapping[str, tuple[Sequence[str], int]]) -> bytes:
    """Candidates that remain, with their victims."""
    return orjson.dumps(
        {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
                for node, (uids, violations) in victims.items()
            }
        }
    )


def _are_names(nodes: object) -> bool:
    """Whether it is a list of texts. Joining thousands of them is the quickest way to look at each."""
    if not isinstance(nodes, list):
        return False
    try:
        "".join(nodes)
    except TypeError:
        return False
    return True


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedRequestError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise MalformedRequestError("not a JSON object")
    return document


def _object(document: Mapping[str, Any], member: str) -> Mapping[str, Any]:
    value = document.get(member)
    if not isinstance(value, dict):
        raise MalformedRequestError(f"{member} is missing")
    return value
