"""AdmissionReview, the API server's question and our answer, read and written (admission.k8s.io/v1)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from tensorfusion_iac.admission.decision import Decision
from tensorfusion_iac.api import annotation_naming

_REASONS = {
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}
_API_VERSION = "admission.k8s.io/v1"


class MalformedReviewError(ValueError):
    """The body is not an AdmissionReview with a request; `str()` says what is the matter."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked: about which object, in which namespace, and whether it is only tried."""

    uid: str
    operation: str
    group: str
    kind: str
    namespace: str
    object: Any
    old_object: Any
    dry_run: bool


def read_review(body: bytes) -> Request:
    """The request of a review. Raises MalformedReviewError."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedReviewError(f"the body is not JSON: {error}") from None
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict) or review.get("kind") != "AdmissionReview":
        raise MalformedReviewError("the body is not an AdmissionReview with a request")
    kind = request.get("kind")
    uid = request.get("uid")
    if not isinstance(uid, str) or not uid or not isinstance(kind, dict):
        raise MalformedReviewError("the request has no uid or no kind")
    return Request(
        uid, _text(request, "operation"), _text(kind, "group"), _text(kind, "kind"), _text(request, "namespace"),
        request.get("object"), request.get("oldObject"), request.get("dryRun") is True,
    )  # fmt: skip


def answer(uid: str, decision: Decision) -> bytes:
    """The review that tells the API server what was decided."""
    response: dict[str, Any] = {"uid": uid, "allowed": decision.allowed}
    if decision.warnings:
        response["warnings"] = decision.warnings
    if decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(decision.patch_json()).decode()
    if not decision.allowed:
        causes = [
            {
                "field": annotation_naming(problem.field),
                "reason": "FieldValueInvalid",
                "message": problem.sentence(annotation_naming),
            }
            for problem in decision.problems
        ]
        response["status"] = {
            "code": int(decision.status), "reason": _REASONS[HTTPStatus(decision.status)], "message": decision.message,
            "details": {"causes": causes},
        }  # fmt: skip
    return orjson.dumps({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response})


def _text(parent: Mapping[str, Any], member: str) -> str:
    value = parent.get(member)
    return value if isinstance(value, str) else ""
