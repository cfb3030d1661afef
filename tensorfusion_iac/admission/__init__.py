"""Admission: what becomes of pods, templates and our custom resources when they are created (SPEC §1, §2a, §5).

This door is pure: values in, values out. The webhook around it is `server`, imported by its own name.
"""

from tensorfusion_iac.admission.decision import AdmissionFacts, Decision, Grey
from tensorfusion_iac.admission.mutation import mutate
from tensorfusion_iac.admission.patch import Operation, apply, diff
from tensorfusion_iac.admission.resources import Neighbours, judge_resource
from tensorfusion_iac.admission.templates import judge_template, pod_template

__all__ = [
    "AdmissionFacts", "Decision", "Grey", "Neighbours", "Operation",
    "apply", "diff", "judge_resource", "judge_template", "mutate", "pod_template",
]  # fmt: skip
