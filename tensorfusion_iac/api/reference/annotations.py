"""The page of annotations, and its table for the README: one row for each row of `api/fields.py` (SPEC §2)."""

from __future__ import annotations

from tensorfusion_iac.api.fields import FIELDS
from tensorfusion_iac.api.names import (
    DEFAULT_POOL_ANNOTATION,
    ENABLED_LABEL,
    PREFIX,
    SYSTEM_KEYS,
    SYSTEM_KEYS_BY_CONTAINER,
)
from tensorfusion_iac.api.reference.markdown import code, table

BEGIN, END = "<!-- annotations:begin -->", "<!-- annotations:end -->"

_HEAD = ("Annotation", "Python argument", "Profile field", "Value", "Default", "Rule")
_INTRODUCTION = f"""\
# Annotations

What a pod's annotations can say. This page is written from `tensorfusion_iac/api/fields.py`; do not edit it.

- Keys carry the prefix `{PREFIX}`. They do something only on a pod with the label `{ENABLED_LABEL}: "true"`.
- An annotation beats the same field of the WorkloadProfile that `workload-profile` names; then come the namespace's
  GPUResourceQuota, the pool, and the default.
- Amounts are per vGPU worker per GPU: Kubernetes quantities such as `10`, `0.5`, `500m`, `4Gi`, `4G`, without a sign.
- An argument of `VGPU` is the annotation's name in snake_case. The profile field is the same in `WorkloadProfile.spec`.
"""
_OTHERS = f"""\
## Keys that are not for pods

`{DEFAULT_POOL_ANNOTATION}: "true"` on a GPUPool makes it the pool of pods that name none.

Only the system writes the following; a user's value is removed with a warning. The second group has one for each injected
container, `<key>.<container>`.
"""


def annotations_table() -> str:
    """All annotations as a Markdown table."""
    rows = (
        (
            code(field.key), code(field.argument), code(field.profile) if field.profile else "-",
            field.takes, field.default, field.rule or "-",
        )
        for field in FIELDS
    )  # fmt: skip
    return table(_HEAD, rows)


def annotations_page() -> str:
    """docs/reference/annotations.md."""
    groups = (", ".join(map(code, SYSTEM_KEYS)), ", ".join(map(code, SYSTEM_KEYS_BY_CONTAINER)))
    return f"{_INTRODUCTION}\n{annotations_table()}\n{_OTHERS}\n- {groups[0]}\n- {groups[1]}\n"


def with_annotations(text: str) -> str:
    """The text with the table between its markers. Raises ValueError if it does not have both, in this order."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the text lacks {BEGIN} or, after it, {END}")
    return f"{before}{BEGIN}\n{annotations_table()}{END}{after}"
