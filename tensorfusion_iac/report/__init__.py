"""The preview report for reviewers: read a preview, judge it against the cluster, show it.

print(markdown(report_of(read_preview(text), cluster)))
"""

from tensorfusion_iac.report.build import Report, report_of
from tensorfusion_iac.report.live import Cluster
from tensorfusion_iac.report.markdown import MOST_CHARACTERS, markdown, marker
from tensorfusion_iac.report.preview import PreviewError, read_preview
from tensorfusion_iac.report.record import record
from tensorfusion_iac.report.risks import Kind

__all__ = [
    "MOST_CHARACTERS", "Cluster", "Kind", "PreviewError", "Report", "markdown", "marker", "read_preview", "record", "report_of",
]  # fmt: skip
