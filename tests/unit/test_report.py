"""The report's rules: what is said of a change, how it is applied, risks, prices, unknown values; on edited previews."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_previews import cluster, edited, objects, steps, text

from tensorfusion_iac.api.names import PREFIX
from tensorfusion_iac.report import Cluster, PreviewError, Report, markdown, read_preview, record, report_of
from tensorfusion_iac.report.fit import Verdict
from tensorfusion_iac.report.markdown import cell
from tensorfusion_iac.report.preview import without_unknown
from tensorfusion_iac.report.rolls import How

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
Edit = Callable[[dict[str, Any]], None]


def told(edit: Edit, *, name: str = "no-change", objects_of: Cluster | None = None) -> Report:
    """The report of a recorded preview after an edit of its JSON."""
    return report_of(read_preview(json.dumps(edited(name, edit))), objects_of or cluster())


def update(workload: str, change: Callable[[dict[str, Any]], None], kind: str = "Deployment") -> Edit:
    """The workload is updated: `change` edits its new inputs."""

    def edit(digest: dict[str, Any]) -> None:
        for step in steps(digest, kind, workload):
            step["op"] = "update"
            change(step["newState"]["inputs"])

    return edit


def annotated(workload: str, **annotations: str | None) -> Edit:
    """Annotations of the pod template are set, or removed."""

    def change(inputs: dict[str, Any]) -> None:
        marks = inputs["spec"]["template"]["metadata"]["annotations"]
        for key, value in annotations.items():
            full = PREFIX + key.replace("_", "-")
            marks.pop(full, None)
            if value is not None:
                marks[full] = value

    return update(workload, change)


def spec(workload: str, **fields: Any) -> Edit:
    return update(workload, lambda inputs: inputs["spec"].update(fields))


def row(report: Report, title: str) -> tuple[How, tuple[str, ...], str]:
    (found,) = [one for one in report.rows if one.title == title]
    return found.how, found.what, found.way


def kinds(report: Report) -> dict[str, str]:
    return {risk.kind.value: risk.subject for risk in report.risks}


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (annotated("training", tflops_request="40"), "TFLOPS request 10 -> 40 per GPU, x 4 GPUs x 2 replicas"),
        (annotated("training", gpu_count="2"), "4 -> 2 GPUs per worker"),
        (annotated("training", qos="low", gpu_model="A100"), "QoS high -> low; GPU model any -> A100"),
        (annotated("search", compute_percent_request="50"),
         "compute request 25% of a card -> 50% of a card per GPU, x 1 GPU x 2 replicas"),
        (annotated("search", compute_percent_request=None, tflops_request="100"),
         "compute request 25% of a card -> 100 TFLOPS per GPU, x 1 GPU x 2 replicas"),
        (annotated("search", compute_percent_request=None, vram_request=None, dedicated_gpu="true", gpu_model="A100"),
         "GPU model any -> A100; whole cards no -> yes"),
        (annotated("search", vram_request="20Gi"),
         "VRAM request 10Gi -> 20Gi, VRAM limit 10Gi -> 20Gi per GPU, x 1 GPU x 2 replicas"),
        (spec("search", replicas=3), "2 -> 3 replicas"),
        (annotated("search", isolation="hard"), "isolation soft -> hard"),
        (annotated("training", enabled_replicas="1"), "2 -> 1 replica"),
    ],
)  # fmt: skip
def test_a_change_is_said_in_words(edit: Edit, says: str) -> None:
    report = told(edit)
    assert "; ".join(report.rows[0].what) == says


def test_images_are_named_and_other_fields_of_the_template_are_counted() -> None:
    def change(inputs: dict[str, Any]) -> None:
        container = inputs["spec"]["template"]["spec"]["containers"][0]
        container |= {"image": "registry.example/search:2", "command": ["serve", "--fast"]}

    how, what, _ = row(told(update("search", change)), "ml/search")
    assert how is How.ROLLS
    assert what == (
        "image of search registry.example/search:1 -> registry.example/search:2", "2 other fields of the pod template"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("strategy", "way"),
    [
        (None, "maxSurge 1, maxUnavailable 0"),
        ({"type": "Recreate"}, "Recreate: all end before new ones start"),
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, "maxSurge 0, maxUnavailable 1"),
    ],
)
def test_how_a_template_reaches_the_pods(strategy: Any, way: str) -> None:
    def change(inputs: dict[str, Any]) -> None:
        inputs["spec"]["template"]["metadata"]["annotations"][f"{PREFIX}qos"] = "medium"
        if strategy:
            inputs["spec"]["strategy"] = strategy

    how, _, said = row(told(update("search", change)), "ml/search")
    assert how is How.ROLLS
    assert way in said


def profile(**fields: Any) -> Edit:
    return update("inference", lambda inputs: inputs["spec"].update(fields), "WorkloadProfile")


def test_a_profiles_amounts_reach_running_pods_in_place_and_the_rest_new_ones_only() -> None:
    amounts = {"requests": {"tflops": "30", "vram": "8Gi"}, "limits": {"tflops": "60"}}
    how, what, way = row(told(profile(resources=amounts)), "ml/chat")
    assert (how, what) == (How.IN_PLACE, ("TFLOPS request 20 -> 30 per GPU, x 1 GPU x 4 replicas",))
    assert way == "applied in place to running pods (profile inference)"
    _, _, way = row(told(profile(resources=amounts, qos="low")), "ml/chat")
    assert way.endswith("; QoS: new pods only")
    how, _, _ = row(told(profile(qos="low")), "ml/chat")
    assert how is How.NEW_PODS


def test_amounts_in_place_that_find_no_room_on_their_card_do_not_fit() -> None:
    report = told(profile(resources={"requests": {"tflops": "20", "vram": "40Gi"}}))
    assert report.fit is not None
    assert report.fit.verdict is Verdict.WAITS
    assert kinds(report) == {"wont-fit": "ml/chat"}
    assert "running pods would keep their amounts" in report.risks[0].text


def test_a_roll_on_a_full_pool_is_a_deadlock_and_says_what_to_do() -> None:
    report = told(annotated("training", vram_request="75Gi"))
    assert report.fit is not None
    assert report.fit.verdict is Verdict.DEADLOCK
    assert kinds(report) == {"deadlock": "ml/training"}
    assert "give maxUnavailable: 1, or strategy Recreate" in report.risks[0].text


def test_an_end_that_is_chance_is_said_to_be_with_its_odds() -> None:
    """The one large card is free for `search` if it is the other card's pod of `chat` that stays."""
    small, large = "gpu-6154b611-fdc6-537f-b629-1910e4afb0f3", "gpu-c5a63144-70e8-587b-91a0-014dc8fea055"
    kept = []
    for item in copy.deepcopy(cluster().objects):
        if item["kind"] == "GPU" and item["status"]["nodeName"].startswith("l40s"):
            if item["metadata"]["name"] not in (small, large):
                continue
            if item["metadata"]["name"] == small:
                item["status"]["capacity"]["vram"] = "20Gi"
        kept.append(item)

    def edit(digest: dict[str, Any]) -> None:
        spec("chat", replicas=1)(digest)
        spec("search", replicas=1)(digest)
        annotated("search", gpupool="small", vram_request="45Gi")(digest)

    report = told(edit, objects_of=Cluster(tuple(kept), agents_live=True))
    assert report.fit is not None
    assert report.fit.verdict is Verdict.MAY_WAIT
    assert 0 < report.fit.ended_well < report.fit.rehearsals
    odds = f"{report.fit.ended_well} of {report.fit.rehearsals} rehearsals ended well"
    assert odds in markdown(report)
    assert [risk.subject for risk in report.risks if odds in risk.text] == ["ml/search"]
    assert record(report)["fit"]["verdict"] == "may-wait"
    assert told(edit, objects_of=Cluster(tuple(kept), agents_live=True)) == report, "the same cluster, the same report"


def test_a_workload_that_admission_would_refuse_is_not_said_to_fit_to_ask_for_nothing_or_to_need_nothing() -> None:
    report = told(annotated("search", qos="urgent"))
    assert report.fit is not None
    assert report.fit.verdict is Verdict.REFUSED
    assert row(report, "ml/search")[1] == ("its pods would be refused",)
    assert report.open_demand == ("ml/search",)
    assert "admission would refuse pods of it" in markdown(report)


def whole_cards(digest: dict[str, Any]) -> None:
    annotated("search", vram_request=None, compute_percent_request=None, dedicated_gpu="true", gpu_model="A100")(digest)


@pytest.mark.parametrize(
    ("edit", "kind", "subject"),
    [
        (annotated("training", vram_request=None, vram_limit="20Gi"), "limit-without-request", "ml/training"),
        (whole_cards, "whole-card", "ml/search"),
        (annotated("search", vram_limit="200Gi"), "vram-above-card", "ml/search"),
        (annotated("search", qos="urgent"), "refused", "ml/search"),
        (annotated("search", gpupool="nowhere"), "refused", "ml/search"),
        (annotated("search", vram_request=UNKNOWN), "unknown", "ml/search"),
        (annotated("training", vram_request="[secret]"), "unknown", "ml/training"),
        (spec("training", replicas=30), "wont-fit", "ml/training"),
    ],
)
def test_each_risk_is_found(edit: Edit, kind: str, subject: str) -> None:
    assert kinds(told(edit))[kind] == subject


def test_a_change_without_risk_has_none() -> None:
    assert told(annotated("search", vram_request="11Gi")).risks == ()


def delete(kind: str, name: str, **state: Any) -> Edit:
    def edit(digest: dict[str, Any]) -> None:
        for step in steps(digest, kind, name):
            step["op"] = "delete"
            step["oldState"] |= state
            step.pop("newState", None)

    return edit


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (delete("CustomResourceDefinition", "datasets"), {"crd-deleted": "datasets.example.dev"}),
        (delete("CustomResourceDefinition", "datasets", retainOnDelete=True), {}),
        (delete("CustomResourceDefinitionPatch", "crds-gpus"), {}),
        (delete("GPUPool", "small"), {"pool-deleted": "small"}),
    ],
)
def test_deleted_objects(edit: Edit, expected: Mapping[str, str]) -> None:
    found = kinds(told(edit))
    assert {kind: found[kind] for kind in ("crd-deleted", "pool-deleted") if kind in found} == expected


def test_a_workload_that_leaves_the_stack_and_stays_is_not_deleted() -> None:
    how, what, _ = row(told(delete("Deployment", "search", retainOnDelete=True)), "ml/search")
    assert how is How.KEPT
    assert what[0].startswith("stays in the cluster, no longer managed")


def test_a_higher_qos_preempts_and_it_is_said_whom() -> None:
    def change(inputs: dict[str, Any]) -> None:
        inputs["spec"]["strategy"] = {"type": "Recreate"}
        inputs["spec"]["template"]["metadata"]["annotations"][f"{PREFIX}vram-request"] = "75Gi"

    report = told(update("training", change))
    assert report.fit is not None
    assert report.fit.verdict is Verdict.FITS, "of those that change"
    (risk,) = report.risks
    assert (risk.kind.value, risk.subject) == ("preempts", "ml/training")
    assert risk.text == "evicts 2 pods of ml/search; 2 pods of it would then wait"


def test_a_watched_pool_is_told_for_limits_on_memory() -> None:
    watched = tuple(
        {**item, "status": {**item["status"], "capabilities": {"vramLimit": "watch"}}} if item["kind"] == "GPU" else item
        for item in objects()
    )
    report = told(annotated("search", vram_request="11Gi"), objects_of=Cluster(watched, agents_live=True))
    assert kinds(report) == {"watch-only": "ml/search"}


def test_prices_are_the_pools_own_or_the_part_of_a_card_that_is_taken() -> None:
    costs = {cost.title: cost for cost in told(lambda digest: None).costs}
    # 2 workers x 4 GPUs x (10 TFLOPS x 0.01 + 20Gi x 0.02 a GB)
    assert costs["ml/training"].after == 2 * 4 * (Decimal("0.1") + Decimal(20 * 2**30) / 10**9 * Decimal("0.02"))
    # a quarter of a card's compute, which is more than an eighth of its memory
    assert costs["ml/search"].after == 2 * Decimal("0.25") * Decimal("1.89")
    assert costs["ml/search"].source == "catalogue, A100_SXM_80G at 1.89 USD an hour"


HINT = "give one with qosConfig.pricing of GPUPool big for QoS low"


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("L40X", f"no price for L40X, which is not in the catalogue; {HINT}"),
        ("MTT_S4000", f"no price for MTT_S4000; {HINT}"),
    ],
)
def test_what_has_no_price_is_named_with_the_reason_and_not_summed_as_nothing(model: str, reason: str) -> None:
    report = told(annotated("search", gpu_model=model))
    (cost,) = [one for one in report.costs if one.title == "ml/search"]
    assert (cost.after, cost.missing) == (None, reason)
    others = sum((one.after for one in report.costs if one.after is not None), Decimal(0))
    assert report.total_cost()[1] == others > 0
    shown = markdown(report)
    assert f"USD an hour, and what is not known\n  - of ml/search: {cell(reason)}\n" in shown
    alone = dataclasses.replace(report, costs=(cost,))
    assert f"- **Cost:** not known\n  - of ml/search: {cell(reason)}\n" in markdown(alone)
    assert "0.00 \N{RIGHTWARDS ARROW} 0.00" not in markdown(alone)


def test_a_model_that_the_pool_has_not_yet_is_priced_by_the_catalogue() -> None:
    costs = {cost.title: cost for cost in told(annotated("search", gpu_model="H100_SXM_80G")).costs}
    assert "catalogue, H100_SXM at" in costs["ml/search"].source
    assert costs["ml/search"].after is not None


def test_nothing_unknown_is_counted_or_judged() -> None:
    report = told(annotated("search", vram_request=UNKNOWN))
    assert report.open_demand == ("ml/search",)
    assert {cost.title: cost.after for cost in report.costs}["ml/search"] is None
    assert report.fit is not None
    assert report.fit.verdict is Verdict.UNKNOWN
    assert row(report, "ml/search")[1] == ("known only at deployment: vram-request",)


def test_unknown_members_are_left_out_and_their_places_told() -> None:
    assert without_unknown({"a": UNKNOWN, "b": ["x", UNKNOWN], "c": {"d": 1}}) == (
        {"b": ["x", None], "c": {"d": 1}}, [("a",), ("b", 1)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "there is nothing to read"),
        ("Previewing update (dev):", "this is not the output of `pulumi preview --json`"),
        ('{"steps": [', "this is not the output"),
        ("[]", "this JSON is not a preview"),
        ('{"kind": "Pod"}', "this JSON is not a preview"),
        ('{"steps": 5}', "steps is not a list"),
        ('{"sequence": 0, "timestamp": 1}\n{"sequence": 1}\n', "this is a stream of events"),
    ],
)
def test_what_is_no_preview_is_refused_in_words(given: str, says: str) -> None:
    with pytest.raises(PreviewError, match=says.replace("(", r"\(")):
        read_preview(given)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", UNKNOWN, "Deployment", "5Gi", "update", "same"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["metadata", "spec", "template", "labels", "annotations", "containers", "replicas", "selector", "name"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


CLUSTER = cluster()


@settings(max_examples=100, deadline=None)
@given(spec=_JSON, metadata=_JSON, kind=st.sampled_from(["Deployment", "GPUPool", "WorkloadProfile", "Pod", "CronJob"]), op=_JSON)
def test_no_preview_makes_it_fail(spec: Any, metadata: Any, kind: str, op: Any) -> None:
    inputs = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
    urn = "urn:pulumi:dev::p::kubernetes:apps/v1:Deployment::x"
    digest = {"steps": [{"op": op, "urn": urn, "newState": {"inputs": inputs}, "oldState": {"inputs": {**inputs, "spec": {}}}}]}
    for at_hand in (None, CLUSTER):
        report = report_of(read_preview(json.dumps(digest)), at_hand)
        assert markdown(report).startswith("<!-- tensorfusion-report: p/dev -->")
        json.dumps(record(report))


def test_text_of_objects_cannot_break_out_of_its_cell() -> None:
    assert cell("a|b\nc <b> @team [x](y) `z`") == r"a\|b c &lt;b&gt; @<!-- -->team \[x\](y) \`z\`"


def test_a_long_text_is_cut() -> None:
    assert len(cell("x" * 10_000)) == 400


def test_the_recorded_text_is_read_as_it_was_printed() -> None:
    preview = read_preview(text("delete"))
    assert (preview.project, preview.stack, preview.unseen) == ("models", "dev", 11)
    retained = [change.resource for change in preview.changes if change.retained]
    assert len(retained) == 7, "the definitions of TensorFusion stay when they leave the stack"


def pods_edited(workload: str, how_many: int, change: Callable[[dict[str, Any]], None]) -> Cluster:
    """The recorded cluster with so many pods of a workload changed."""
    items = copy.deepcopy(objects())
    found = [item for item in items if item["kind"] == "Pod" and item["metadata"]["name"].startswith(workload)]
    for item in found[:how_many]:
        change(item)
    return Cluster(items, agents_live=True)


def gated(pod: dict[str, Any], gate: str = "tensor-fusion.ai/gang") -> None:
    """The pod waits behind a gate."""
    pod["spec"] = {key: value for key, value in pod["spec"].items() if key != "nodeName"} | {"schedulingGates": [{"name": gate}]}
    pod["status"] = {"phase": "Pending"}


def of_a_gang(pod: dict[str, Any]) -> None:
    """The pod is a member of a gang of two, as admission resolved it, and waits."""
    marks = pod["metadata"]["annotations"]
    worker = json.loads(marks[f"{PREFIX}resolved"])
    marks[f"{PREFIX}resolved"] = json.dumps(worker | {"gang": {"minMembers": 2}})
    gated(pod)


@pytest.mark.parametrize("workload", ["search", "training", "chat"])
@pytest.mark.parametrize(
    ("edit", "verdict"),
    [
        (lambda name: annotated(name, tflops_request="1", compute_percent_request=None), Verdict.FITS),
        (lambda name: spec(name, replicas=1), Verdict.FITS),
        (lambda name: spec(name, replicas=4), Verdict.UNKNOWN),
    ],
)
def test_gated_pods_of_a_workload_that_changes_go_first_and_are_not_placed(
    workload: str, edit: Callable[[str], Edit], verdict: Verdict
) -> None:
    if workload == "chat" and verdict is Verdict.UNKNOWN:  # it has four
        edit = functools.partial(spec, replicas=5)
    fit = told(edit(workload), objects_of=pods_edited(workload, 1, gated)).fit
    assert fit is not None
    assert fit.verdict is verdict
    assert fit.not_judged == ((f"ml/{workload}: 1 of its pods is held back by a scheduling gate",) if fit.not_judged else ())


def scaled(workload: str, replicas: tuple[int, int], change: Callable[[dict[str, Any]], None]) -> Edit:
    """The workload is scaled; `change` edits its pod template as it is before and after."""

    def edit(digest: dict[str, Any]) -> None:
        for step in steps(digest, "Deployment", workload):
            step["op"] = "update"
            for state, count in zip(("oldState", "newState"), replicas, strict=True):
                spec = step[state]["inputs"]["spec"]
                spec["replicas"] = count
                change(spec["template"])

    return edit


@pytest.mark.parametrize(("replicas", "verdict"), [(2, Verdict.FITS), (1, Verdict.WAITS)])
def test_members_of_a_gang_that_wait_for_one_more_start_when_it_comes(replicas: int, verdict: Verdict) -> None:
    def ganged(template: dict[str, Any]) -> None:
        template["metadata"]["annotations"][f"{PREFIX}gang-min-members"] = "2"

    both = pods_edited("search", 2, of_a_gang)
    second = "search-576cf7b5d-4gcss"
    alone = Cluster(tuple(item for item in both.objects if item["metadata"]["name"] != second), agents_live=True)
    before = 3 - replicas
    fit = told(scaled("search", (before, replicas), ganged), objects_of=alone).fit
    assert fit is not None
    assert [(one.owner, one.pods) for one in fit.waited_before] == [("ml/search", 1)]
    assert fit.verdict is verdict


@pytest.mark.parametrize(("policy", "waits", "evicts"), [(None, 4, True), ("Never", 5, False)])
@pytest.mark.parametrize("told_by", ["pods", "template"])
def test_a_workload_whose_priority_class_never_preempts_evicts_nobody(
    policy: str | None, waits: int, evicts: bool, told_by: str
) -> None:
    def high(pod: dict[str, Any]) -> None:
        pod["spec"] |= {"priority": 50_000} | ({"preemptionPolicy": policy} if policy and told_by == "pods" else {})

    def meek(template: dict[str, Any]) -> None:
        if policy and told_by == "template":
            template["spec"]["preemptionPolicy"] = policy

    fit = told(scaled("training", (2, 12), meek), objects_of=pods_edited("training", 2, high)).fit
    assert fit is not None
    assert ({one.owner: one.pods for one in fit.waiting}, bool(fit.evicted)) == ({"ml/training": waits}, evicts)


@pytest.mark.parametrize("replicas", [-1, 2**31, 10**30])
def test_a_number_of_pods_that_kubernetes_refuses_is_said_and_not_judged(replicas: int) -> None:
    report = told(spec("search", replicas=replicas))
    assert f"{replicas} is no number of pods that Kubernetes takes; give 0 to 2147483647" in report.risks[0].text
    assert report.fit is not None
    assert (report.fit.verdict, report.fit.not_judged) == (Verdict.REFUSED, ("ml/search: it would be refused",))
    assert record(report)["cost"]


def test_more_pods_than_can_be_rehearsed_are_not_judged() -> None:
    fit = told(spec("search", replicas=2**31 - 1)).fit
    assert fit is not None
    assert fit.not_judged == ("ml/search: 2,147,483,647 pods are too many to rehearse, 20,000 at most",)


@pytest.mark.parametrize("containers", [5, "c", {"name": "c"}, [5]])
def test_containers_of_another_shape_are_refused_and_reported(containers: Any) -> None:
    report = told(update("search", lambda inputs: inputs["spec"]["template"]["spec"].update(containers=containers)))
    assert "refused" in kinds(report)
    assert markdown(report)


@pytest.mark.parametrize("diagnostics", [1.5, "x", {"severity": "error"}, [3]])
def test_diagnostics_of_another_shape_say_nothing(diagnostics: Any) -> None:
    assert told(lambda digest: digest.update(diagnostics=diagnostics)).errors == ()


def test_an_absurd_price_is_told_as_it_is() -> None:
    def change(digest: dict[str, Any]) -> None:
        for step in (*steps(digest, "GPUPool", "big"), *steps(digest, "GPUPool", "small")):
            pricing = [{"qos": qos, "requests": {"perFP16TFlopsPerHour": "$" + "9" * 30}} for qos in ("low", "medium", "high")]
            step["newState"]["inputs"]["spec"]["qosConfig"] = {"pricing": pricing}

    report = told(change)
    cost = record(report)["cost"]["usdPerHour"]["after"]
    assert cost is not None
    assert len(cost) > 30
