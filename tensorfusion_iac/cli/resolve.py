"""`tensorfusion resolve`: what the webhook would make of a pod, by the very function that the webhook calls (SPEC §2a, §3)."""

from __future__ import annotations

import json
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


_FILE_HELP = "The pod, or a workload whose pods are meant; - is standard input."
_NAMESPACE_HELP = "The pod's namespace: its manifest, or its name."


@app.command()
def resolve(
    file: Annotated[str, typer.Option("--file", "-f", metavar="FILE", help=_FILE_HELP)],
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

    Profiles and pools that are not given are not judged: the answer then holds for what the pod says itself. Without a
    quota there is none. Exit code 1 if the pod is refused.
    """
    from tensorfusion_iac.admission import AdmissionFacts, Grey, mutate
    from tensorfusion_iac.api import UNJUDGED, Namespace, profile_name
    from tensorfusion_iac.cli.pod_templates import pod_of, template_of

    item = _the_pod(file)
    template = template_of(item)
    if template is None:
        raise usage(f"{item.file}:{item.line}: {item.subject} describes no pods; give a pod, or a workload with a pod template")
    named, manifest = _namespace(namespace)
    where = item.namespace or named or "default"
    known = _given([*(profile or ()), *(pool or ()), *([quota] if quota else ()), *manifest], where)
    pod = pod_of(item, template)
    wanted = profile_name(pod)
    decision = mutate(
        pod,
        AdmissionFacts(Namespace(where, known.namespaces.get(where)), _owner(owner) or template.owner),
        profile=None if wanted is None else known.profiles.get((where, wanted)) if profile else UNJUDGED,
        pools=known.pools if pool else UNJUDGED,
        quota=known.quotas.get(where),
        grey=Grey(grey.value),
        claim=claim,
    )
    if wanted is not None and not profile:
        complain(f"note: WorkloadProfile {wanted} is not given (--profile), so what it says is not in this answer")
    if not pool:
        complain("note: no pool is given (--pool), so the defaults of the pod's pool are not in this answer")
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


def _the_pod(file: str) -> Object:
    """The one object of the file."""
    objects = _objects([file])
    if len(objects) > 1:
        raise usage(f"{file}: there are {len(objects)} objects in this file; give one pod or workload")
    return objects[0]


def _objects(files: list[str], namespace: str = "") -> list[Object]:
    documents, unreadable = read_files(files)
    objects, no_objects = objects_in(documents, namespace)
    if wrong := [*unreadable, *no_objects]:
        raise Failure("; ".join(place.text() for place in wrong), Exit.PROBLEMS)
    return objects


def _given(files: list[str], namespace: str) -> Given:
    """What the files say of the cluster. Raises Failure if one of their objects is wrong: the webhook never sees such."""
    from tensorfusion_iac.cli.given import Given
    from tensorfusion_iac.cli.judge import judge
    from tensorfusion_iac.cli.own_resources import check

    objects = _objects(files, namespace) if files else []
    texts = [text for verdict in judge(objects) if verdict.problems for text in verdict.texts()]
    if texts:
        raise Failure("\n".join(texts), Exit.PROBLEMS)
    return Given.of((item, check(item).model) for item in objects)


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
