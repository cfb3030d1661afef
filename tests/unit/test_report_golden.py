"""What reviewers see of ten previews. `python tests/unit/test_report_golden.py` writes the files anew, for review."""

from __future__ import annotations

import json
import random

import pytest
from recorded_previews import GOLDEN, MANY, NAMES, cluster, empty_cluster, report, text

from tensorfusion_iac.report import MOST_CHARACTERS, markdown, marker, read_preview, record, report_of


@pytest.mark.parametrize("name", NAMES)
def test_the_report_is_as_reviewed(name: str) -> None:
    assert markdown(report(name)) == (GOLDEN / f"{name}.md").read_text()


@pytest.mark.parametrize("name", ["grow", "delete", "unknown"])
def test_the_order_of_the_previews_steps_changes_nothing(name: str) -> None:
    digest = json.loads(text(name))
    random.Random(7).shuffle(digest["steps"])
    assert markdown(report_of(read_preview(json.dumps(digest)), cluster())) == (GOLDEN / f"{name}.md").read_text()


def test_five_hundred_workloads_fit_into_a_comment_and_what_is_left_out_is_told() -> None:
    found = report(MANY)
    shown = markdown(found)
    assert len(shown) < MOST_CHARACTERS
    assert len(found.rows) == 500
    assert f"... and {500 - shown.count('| created |')} more workloads, left out" in shown
    assert shown.count("| created |") >= 100
    assert len(record(found)["workloads"]) == 500, "JSON has all"


@pytest.mark.parametrize("name", NAMES)
def test_json_says_the_same(name: str) -> None:
    found = report(name)
    plain = json.loads(json.dumps(record(found)))
    assert [one["workload"] for one in plain["workloads"]] == [row.title for row in found.rows]
    assert [risk["kind"] for risk in plain["risks"]] == [risk.kind for risk in found.risks]
    assert plain["fit"]["verdict"] == found.fit.verdict if found.fit else False


def test_without_a_cluster_the_preview_alone_is_told() -> None:
    found = report_of(read_preview(text("grow")), None)
    assert found.fit is None
    assert "Fit:** not judged, for no cluster was given" in markdown(found)
    assert [row.what for row in found.rows] == [row.what for row in report("grow").rows]


def test_the_marker_names_the_stack_and_stands_first() -> None:
    found = report_of(read_preview(text("create")), empty_cluster())
    assert markdown(found).splitlines()[0] == marker(found) == "<!-- tensorfusion-report: models/dev -->"


if __name__ == "__main__":
    for each in NAMES:
        (GOLDEN / f"{each}.md").write_text(markdown(report(each)))
