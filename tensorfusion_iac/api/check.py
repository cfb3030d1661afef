"""Whether the API server would take an object of one of our kinds, judged without a cluster: the same verdict, in our words.

It reads the models that the CRDs are generated from (SPEC §4), their rules between fields, and Kubernetes' rules for
metadata. `status` is not judged: the server drops what a user writes there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import reduce
from typing import Any, TypeAlias, get_args

from pydantic import BaseModel, ValidationError

from tensorfusion_iac.api.catalogue import did_you_mean, find
from tensorfusion_iac.api.metadata import metadata_problems, unknown_field
from tensorfusion_iac.api.model_problems import Location, path_of, problems_of
from tensorfusion_iac.api.names import API_VERSION, GROUP
from tensorfusion_iac.api.plain import Json, below, plain
from tensorfusion_iac.api.problem import Problem, quote
from tensorfusion_iac.api.resources import KINDS, Model, Rule, WorkloadSpec
from tensorfusion_iac.api.resources.base import IGNORED

Verdict: TypeAlias = tuple[list[Problem], list[Problem]]

BY_KIND: Mapping[str, type[Model]] = {model.KIND.kind: model for model in KINDS}


def is_ours(raw: object) -> bool:
    """Whether the object says that it is of our group, of whatever version and kind."""
    version = raw.get("apiVersion") if isinstance(raw, Mapping) else None
    return isinstance(version, str) and version.partition("/")[0] == GROUP


def check_resource(raw: object, unknown: Collection[str] = ()) -> Verdict:
    """All problems and all warnings of one object (raw JSON or YAML), by camelCase path. Never raises.

    No problems means that an API server with our CRDs takes it, `fieldValidation=Strict` included. `unknown` are the paths of
    fields that are not in the object because their values come later: nothing is said that rests on their absence.
    """
    given, problems = plain(raw)
    if not isinstance(given, dict):
        return [Problem("object", quote(given), "an object with apiVersion, kind, metadata and spec")], []
    model = _model_of(given)
    if isinstance(model, Problem):
        return [*problems, model], []
    problems += metadata_problems(given.get("metadata"))
    aside = {*unknown, *(problem.field for problem in problems)}
    known = _known_only(given, model, "", problems, aside)
    name = metadata.get("name") if isinstance(metadata := given.get("metadata"), dict) else None
    known |= {"metadata": {"name": name} if isinstance(name, str) else {}}  # the rest is judged above
    known.pop("status", None)
    instance = _validated(known, model, problems, aside)
    warnings: list[Problem] = list(_ignored(known, model, ""))
    if instance is not None:
        problems += _broken_rules(instance, known, "", aside)
        warnings += _doubts(instance)
    return [problem for problem in problems if problem.field not in unknown], warnings


def _model_of(given: Mapping[str, Json]) -> type[Model] | Problem:
    version, kind = given.get("apiVersion"), given.get("kind")
    if version != API_VERSION:
        found = "nothing" if version is None else quote(version)
        return Problem("apiVersion", found, API_VERSION, "{found} where {accepted} is expected")
    model = BY_KIND.get(kind) if isinstance(kind, str) else None
    if model is None:
        found = "nothing" if kind is None else quote(kind)
        return Problem("kind", found, ", ".join(BY_KIND), "{found} where one of {accepted} is expected")
    return model


def _known_only(
    given: dict[str, Json], model: type[BaseModel], path: str, problems: list[Problem], aside: set[str]
) -> dict[str, Json]:
    """The object without the members that its model does not have; those become problems."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    known: dict[str, Json] = {}
    for key, value in given.items():
        where = below(path, key)
        if key not in fields:
            problem = unknown_field(path, key, tuple(fields))
            problems.append(problem)
            aside.update(below(path, name) for name in fields if f" {name}?" in problem.accepted)
            continue
        part = _model_in(fields[key].annotation) if where != "metadata" else None
        if part is not None and isinstance(value, dict):
            known[key] = _known_only(value, part, where, problems, aside)
        elif part is not None and isinstance(value, list):
            known[key] = [
                _known_only(item, part, below(where, index), problems, aside) if isinstance(item, dict) else item
                for index, item in enumerate(value)
            ]
        else:
            known[key] = value
    return known


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field holds, be it one, a list of them, or optional."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)


def _validated(known: dict[str, Json], model: type[Model], problems: list[Problem], aside: set[str]) -> Model | None:
    """The object as its model. Each fault becomes a problem; the faulty parts are left out, so that the rest can be judged."""
    rest: dict[str, Json] = json.loads(json.dumps(known))
    first = True
    while True:
        try:
            # As JSON and strict, since the API server turns no text into a number either.
            return model.model_validate_json(json.dumps(rest), strict=True, by_alias=True, by_name=False)
        except ValidationError as error:
            places = []
            for location, problem in problems_of(error):
                places.append(location)
                if first:
                    problems.append(problem)
            first = False
            if not all(_cut(rest, place, aside) for place in dict.fromkeys(_cuttable(place, rest) for place in places)):
                return None


def _cuttable(location: Location, rest: Json) -> Location:
    """The nearest member of an object at or above a place: a list is left out as a whole, as is what lacks a member."""
    place = location
    while place and (isinstance(place[-1], int) or _at(rest, place) is None):
        place = place[:-1]
    return place


def _at(node: Any, place: Location) -> Any:
    try:
        return reduce(lambda part, member: part[member], place, node)
    except (KeyError, IndexError, TypeError):
        return None


def _cut(rest: Json, place: Location, aside: set[str]) -> bool:
    """Leave out the member at `place`; False if there is nothing to leave out."""
    if not place:
        return False
    aside.add(path_of(place))
    parent = _at(rest, place[:-1])
    if isinstance(parent, dict):  # else it went with a part above
        parent.pop(place[-1], None)
    return True


def _broken_rules(model: BaseModel, given: Json, path: str, aside: Collection[str]) -> Iterator[Problem]:
    """The rules between fields that do not hold, here and in every part; not those that miss a field with its own fault."""
    rules: tuple[Rule, ...] = getattr(model, "RULES", ())
    for rule in rules:
        if not any(below(path, need) in aside for need in rule.needs) and not rule.holds(model):
            found = _shown(given, rule.field)
            yield Problem(below(path, rule.field), found, rule.accepted, f"{rule.fault}, found {{found}}; give {{accepted}}")
    for name, field in type(model).model_fields.items():
        key, value = field.alias or name, getattr(model, name)
        member = given.get(key) if isinstance(given, dict) else None
        if isinstance(value, BaseModel):
            yield from _broken_rules(value, member, below(path, key), aside)
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                if isinstance(item, BaseModel):
                    part = member[index] if isinstance(member, list) and index < len(member) else None
                    yield from _broken_rules(item, part, below(below(path, key), index), aside)


def _shown(given: Json, field: str) -> str:
    for member in field.split("."):
        given = given.get(member) if isinstance(given, dict) else None
    if given is None:
        return "nothing"
    return json.dumps(given)[:120] if isinstance(given, list) else quote(given)


def _ignored(given: Mapping[str, Json], model: type[BaseModel], path: str) -> Iterator[Problem]:
    """The members that only the public operator reads."""
    for name, field in model.model_fields.items():
        key = field.alias or name
        value = given.get(key)
        if value is None:
            continue
        extra = field.json_schema_extra
        part = _model_in(field.annotation)
        if isinstance(extra, dict) and extra.get(IGNORED):
            yield Problem(below(path, key), "given", "ignored", "accepted for manifests of the public operator, and {accepted}")
        elif part is not None:
            items = value if isinstance(value, list) else [value]
            for index, item in enumerate(items):
                where = below(path, key) if item is value else below(below(path, key), index)
                if isinstance(item, dict):
                    yield from _ignored(item, part, where)


def _doubts(model: Model) -> Iterator[Problem]:
    """What is allowed, and may be a mistake."""
    spec = getattr(model, "spec", None)
    if not isinstance(spec, WorkloadSpec):
        return
    if spec.gpu_model and not find(spec.gpu_model):
        hint = did_you_mean(spec.gpu_model) or "`tensorfusion models` lists them"
        message = "{found} is not in the catalogue; pods wait until a node has it; {accepted}"
        yield Problem("spec.gpuModel", quote(spec.gpu_model), hint, message)
    scaling = spec.auto_scaling_config.auto_set_resources if spec.auto_scaling_config else None
    if scaling and scaling.target_resource and not scaling.enable:
        path = "spec.autoScalingConfig.autoSetResources.targetResource"
        yield Problem(path, scaling.target_resource, "enable: true", "{found} says nothing without {accepted}; ignored")
    if spec.standalone_worker_mode and spec.is_local_gpu is False:
        yield Problem("spec.standaloneWorkerMode", "true", "isLocalGPU: true", "{found} says nothing without {accepted}; ignored")
