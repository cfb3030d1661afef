"""`tensorfusion resolve`: what the webhook would make of a pod, by the very function that the webhook calls (SPEC §2a, §3)."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorfusion_iac.cli.exits import Exit, Failure, usage
from tensorfusion_iac.cli.files import read_files
from tensorfusion_iac.cli.objects import Object, objects_in
from tensorfusion_iac.cli.output import as_json, complain, one_line

if TYPE_CHECKING:
    from tensorfusion_iac.admission import Decision
    from tensorfusion_iac.api import Owner
    from tensorfusion_iac.cli.given import Given
    from tensorfusion_iac.cli.pod_templates import Template

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class Shown(StrEnum):
    """The pod and the patch as YAML, everything as JSON, or the patch alone, byte for byte as the webhook sends it."""

    YAML = "yaml"
    JSON = "json"
    PATCH = "patch"


class Side(StrEnum):
    """Which side of a grey release the pod is on."""

    ON = "on"
    OFF = "off"


_FILE_HELP = (
    "The pod, or a workload whose pods are meant, and what the cluster has beside it; may be repeated; - is standard input."
)
_GIVE_POOL = "give it with --pool FILE, or in a file of --file"
_NO_POOL = f"the pod's pool is not given, so its defaults are not in this answer; {_GIVE_POOL}"
_NO_IMAGES = (
    "GPUs are remote unless the pod, its profile or its pool says otherwise, and images are the pool's: give it with --pool "
    'FILE, or with -f pool.yaml; with the annotation tensor-fusion.ai/is-local-gpu: "true" no image is needed'
)
_NAMESPACE_HELP = "The pod's namespace: its manifest, or its name."


@app.command()
def resolve(
    file: Annotated[list[str], typer.Option("--file", "-f", metavar="FILE", help=_FILE_HELP)],
    profile: Annotated[list[str] | None, typer.Option(metavar="FILE", help="WorkloadProfiles of the pod's namespace.")] = None,
    pool: Annotated[list[str] | None, typer.Option(metavar="FILE", help="GPUPools: all of the cluster. May be repeated.")] = None,
    quota: Annotated[str | None, typer.Option(metavar="FILE", help="GPUResourceQuota of the pod's namespace.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", metavar="FILE|NAME", help=_NAMESPACE_HELP)] = None,
    owner: Annotated[str | None, typer.Option(metavar="KIND/NAME", help="Top owner of the pod, such as Deployment/chat.")] = None,
    grey: Annotated[Side, typer.Option(help="With enabled-replicas: whether the pod is one of those.")] = Side.ON,
    claim: Annotated[str | None, typer.Option(help="With enabled-replicas: the slot that the pod took.")] = None,
    output: Annotated[Shown, typer.Option("--output", "-o", help="How to show the answer.")] = Shown.YAML,
) -> None:
    """Show what the webhook would make of a pod, as YAML and as a JSON patch.

    Pools, profiles, a quota and the namespace may stand in the same files. Profiles and pools that are not given are not
    judged: the answer then holds for what the pod says itself. Without a quota there is none. Exit code 1 if the pod is refused.
    """
    from tensorfusion_iac.admission import AdmissionFacts, Grey, mutate
    from tensorfusion_iac.api import UNJUDGED, Mode, Namespace, profile_name
    from tensorfusion_iac.api.at_hand import pools_at_hand
    from tensorfusion_iac.cli.pod_templates import pod_of

    (item, template), beside = _the_pod(_objects(file))
    named, manifest = _namespace(namespace)
    where = item.namespace or named or "default"
    options = _objects([*(profile or ()), *(pool or ()), *([quota] if quota else ()), *manifest])
    known = _given([*options, *beside], where)
    pod = pod_of(item, template)
    wanted = profile_name(pod)
    its_profile = None if wanted is None else known.profiles.get((where, wanted), None if profile else UNJUDGED)
    pools = known.pools if pool else pools_at_hand(pod, its_profile, known.pools)
    decision = mutate(
        pod,
        AdmissionFacts(Namespace(where, known.namespaces.get(where)), _owner(owner) or template.owner),
        profile=its_profile,
        pools=pools,
        quota=known.quotas.get(where),
        grey=Grey(grey.value),
        claim=claim,
    )
    if its_profile is UNJUDGED:
        complain(f"note: WorkloadProfile {wanted} is not given (--profile), so what it says is not in this answer")
    if pools is UNJUDGED:
        complain(f"note: {_NO_POOL}")
        if decision.worker is not None and decision.worker.mode is not Mode.LOCAL:
            complain(f"note: {_NO_IMAGES}")
    _show(output, pod, decision)
    raise typer.Exit(Exit.OK if decision.allowed else Exit.PROBLEMS)


def _show(output: Shown, pod: Any, decision: Decision) -> None:
    from tensorfusion_iac.admission import apply
    from tensorfusion_iac.api import annotation_naming
    from tensorfusion_iac.api.names import key
    from tensorfusion_iac.cli.yaml_text import write

    for warning in decision.warnings:
        complain(f"warning: {one_line(warning)}")
    changed = apply(pod, decision.patch) if decision.allowed else None
    if output is Shown.JSON:
        resolved = ((changed or {}).get("metadata", {}).get("annotations") or {}).get(key("resolved"))
        data = {
            "allowed": decision.allowed,
            "subject": decision.subject,
            "status": int(decision.status),
            "problems": [problem.record(annotation_naming) for problem in decision.problems],
            "warnings": list(decision.warnings),
            "resolved": json.loads(resolved) if decision.worker is not None and resolved else None,
            "patch": list(decision.patch),
            "pod": changed,
        }
        typer.echo(as_json(data))
    elif decision.allowed:
        if decision.worker is None:
            complain("note: the pod is not enabled, so it stays as it is written")
        typer.echo(
            decision.patch_json() if output is Shown.PATCH else write([changed, list(decision.patch)]), nl=output is Shown.PATCH
        )
    if not decision.allowed:
        complain(f"error: {decision.message.replace(decision.subject, one_line(decision.subject))}")


def _the_pod(objects: list[Object]) -> tuple[tuple[Object, Template], list[Object]]:
    """The one object that describes pods, with their template, and the other objects."""
    from tensorfusion_iac.cli.own_resources import is_ours
    from tensorfusion_iac.cli.pod_templates import template_of

    found = [(item, template) for item in objects if not is_ours(item) and (template := template_of(item)) is not None]
    if not found:
        named = ", ".join(f"{item.file}:{item.line}: {item.subject}" for item in objects[:3]) or "an empty list"
        raise usage(f"{named} describes no pods; give a pod, or a workload with a pod template")
    if len(found) > 1:
        named = ", ".join(item.subject for item, _ in found[:3]) + (", ..." if len(found) > 3 else "")
        raise usage(f"there are {len(found)} objects that describe pods ({named}); give one pod or workload")
    return found[0], [item for item in objects if item is not found[0][0]]


def _objects(files: list[str]) -> list[Object]:
    documents, unreadable = read_files(files)
    objects, no_objects = objects_in(documents)
    if wrong := [*unreadable, *no_objects]:
        raise Failure("; ".join(place.text() for place in wrong), Exit.PROBLEMS)
    return objects


def _given(objects: list[Object], namespace: str) -> Given:
    """What the objects say of the cluster. Raises Failure if one of them is wrong: the webhook never sees such."""
    from tensorfusion_iac.cli.given import Given
    from tensorfusion_iac.cli.judge import judge
    from tensorfusion_iac.cli.own_resources import check

    placed = [replace(item, namespace=item.namespace or namespace) for item in objects]
    texts = [text for verdict in judge(placed) if verdict.problems for text in verdict.texts()]
    if texts:
        raise Failure("\n".join(texts), Exit.PROBLEMS)
    return Given.of((item, check(item).model) for item in placed)


def _namespace(text: str | None) -> tuple[str | None, list[str]]:
    """The option `--namespace`: the name, and the file that says more, if it is one."""
    if text is None or not (text.endswith((".yaml", ".yml", ".json")) or Path(text).is_file()):
        return text, []
    found = [item for item in _objects([text]) if item.kind == "Namespace"]
    if len(found) != 1:
        raise usage(f"--namespace {text}: there is not one Namespace in this file, but {len(found)}")
    return found[0].name, [text]


def _owner(text: str | None) -> Owner | None:
    from tensorfusion_iac.api import Owner

    if text is None:
        return None
    kind, slash, name = text.partition("/")
    if not (kind and slash and name):
        raise usage(f'--owner: "{text}" is not KIND/NAME, such as Deployment/chat')
    return Owner(kind, name)
