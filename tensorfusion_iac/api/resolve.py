"""`resolve`: from a pod and what the cluster says, the worker that it asks for, or every reason why not (SPEC §3).

Per field: annotation, then profile, then the namespace quota's defaults, then pool, then the built-in default. Pure: no I/O,
nothing changed, the same answer for the same input. The webhook, the command line and the components all call this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorfusion_iac.api.annotations import Parsed, one_source_problems, parse_annotations
from tensorfusion_iac.api.asked import Asked, resolve_amounts
from tensorfusion_iac.api.catalogue import find, mig_template, nearest
from tensorfusion_iac.api.ceilings import quota_problems
from tensorfusion_iac.api.containers import inject, split
from tensorfusion_iac.api.context import UNJUDGED, Namespace, NotJudged, Owner
from tensorfusion_iac.api.fields import BY_KEY
from tensorfusion_iac.api.levels import AutoscaleTarget, Isolation, Mode, QoS
from tensorfusion_iac.api.names import ENABLED_LABEL, PRIORITY_CLASS_PREFIX
from tensorfusion_iac.api.pod import Pod, read_pod
from tensorfusion_iac.api.pools import choose_pool, may_use
from tensorfusion_iac.api.problem import Fault, Problem, quote
from tensorfusion_iac.api.quantity import format_bytes
from tensorfusion_iac.api.resources.gpupool import GPUPool
from tensorfusion_iac.api.resources.quota import GPUResourceQuota
from tensorfusion_iac.api.resources.workload import WorkloadProfile
from tensorfusion_iac.api.vendors import Vendor
from tensorfusion_iac.api.worker import Gang, ProfileRef, Source, WorkerSpec, canonical, to_json

_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Resolution:
    """The answer. `worker` is None if the pod is not ours (`enabled` false) or is refused (`problems`).

    `forged` lists the full keys of system annotations that the user set: to be removed.
    """

    enabled: bool
    worker: WorkerSpec | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    forged: tuple[str, ...] = ()

    def resolved(self) -> str:
        """The annotation `resolved`: canonical JSON of the worker and the sources."""
        if self.worker is None:
            raise ValueError("nothing was resolved")
        return canonical(to_json(self.worker, self.sources))


def resolve(
    pod: object,
    *,
    owner: Owner | None = None,
    namespace: Namespace | None = None,
    profile: WorkloadProfile | NotJudged | None = None,
    pools: Mapping[str, GPUPool] | NotJudged = UNJUDGED,
    quota: GPUResourceQuota | NotJudged | None = None,
) -> Resolution:
    """Resolve a pod or pod template (raw JSON).

    `profile` is the object that the pod's `workload-profile` names, None if there is no such object; `pools` are all pools by
    name; `quota` is the one of the pod's namespace. UNJUDGED says that an object is not at hand: then nothing is refused
    that depends on it. Malformed input gives problems, never an exception.
    """
    read = read_pod(pod)
    if read.enabled != "true":
        return Resolution(enabled=False, problems=read.problems, warnings=_label_warnings(read))
    parsed = parse_annotations(read.annotations)
    merge = _Merge(read, parsed, profile, quota)
    worker = merge.worker(owner, namespace, pools)
    broken = {problem.field for problem in parsed.problems}
    problems = set_aside(merge.problems, broken)
    return Resolution(True, None if problems else worker, merge.sources, problems, tuple(merge.warnings), parsed.forged)


def set_aside(problems: Iterable[Problem], unknown: Collection[str]) -> tuple[Problem, ...]:
    """The problems that hold whatever the fields in `unknown` (short keys) turn out to be; each once."""
    return tuple(dict.fromkeys(problem for problem in problems if not any(key in unknown for key in problem.lacking)))


def profile_name(pod: object) -> str | None:
    """The WorkloadProfile that a pod names, for the caller to look up."""
    value = read_pod(pod).annotations.get("tensor-fusion.ai/workload-profile")
    return value if isinstance(value, str) and value else None


def _label_warnings(pod: Pod) -> tuple[Problem, ...]:
    if pod.enabled in (None, "true", "false"):
        return ()
    message = "{found} turns nothing on; give {accepted}"
    return (Problem(f"label {ENABLED_LABEL}", quote(pod.enabled), '"true" or "false"', message),)


class _Merge:
    """One resolution in progress: the sources, and what has been found so far."""

    __slots__ = (
        "annotated",
        "pod",
        "pool",
        "problems",
        "profile",
        "profile_of",
        "quota",
        "quota_of",
        "sources",
        "warnings",
    )

    def __init__(
        self,
        pod: Pod,
        parsed: Parsed,
        profile: WorkloadProfile | NotJudged | None,
        quota: GPUResourceQuota | NotJudged | None,
    ) -> None:
        self.pod = pod
        self.annotated = parsed.values
        self.problems = [*pod.problems, *parsed.problems]
        self.warnings = list(parsed.warnings)
        self.sources: dict[str, Source] = {}
        self.pool: Mapping[str, Any] = _NONE
        self.profile: Mapping[str, Any] = _NONE
        self.quota: Mapping[str, Any] = _NONE
        self.profile_of: WorkloadProfile | NotJudged | None = None
        self.quota_of = quota
        name = parsed.values.get("workload-profile")
        if name is not None:
            self._take_profile(name, profile)
        if quota is not None and quota is not UNJUDGED:
            self.quota = quota.layer()

    def _take_profile(self, name: str, profile: WorkloadProfile | NotJudged | None) -> None:
        self.sources["workload-profile"] = Source.ANNOTATION
        self.profile_of = profile
        if profile is None:
            message = "{found} does not exist in the pod's namespace; create {accepted}"
            self.problems.append(Problem("workload-profile", quote(name), f"WorkloadProfile {name}", message))
        elif profile is not UNJUDGED:
            self.profile = profile.spec.layer()
            for problem in one_source_problems(self.profile):
                self.problems.append(
                    Problem(self.where(problem.field, Source.PROFILE), problem.found, problem.accepted, problem.message)
                )

    def where(self, key: str, source: Source | None) -> str:
        """How a problem with the value of `key` names it, given where the value came from."""
        row = BY_KEY.get(key)
        if source is Source.PROFILE and row is not None and isinstance(self.profile_of, WorkloadProfile):
            return f"WorkloadProfile {self.profile_of.metadata.name} spec.{row.profile or key}"
        if source is Source.QUOTA and isinstance(self.quota_of, GPUResourceQuota):
            return f"GPUResourceQuota {self.quota_of.metadata.name} default {key}"
        return key

    def pick(self, key: str, default: Any = None) -> Any:
        """The value of `key` by precedence; the source is noted."""
        for source, layer in (
            (Source.ANNOTATION, self.annotated),
            (Source.PROFILE, self.profile),
            (Source.POOL, self.pool),
        ):
            if key in layer:
                self.sources[key] = source
                return layer[key]
        if default is not None:
            self.sources[key] = Source.DEFAULT
        return default

    def refuse(self, key: str, found: str, accepted: str, message: str, *lacking: str) -> None:
        """Note a problem of `key`, wherever its value came from."""
        self.problems.append(Problem(self.where(key, self.sources.get(key)), found, accepted, message, lacking))

    def warn(self, key: str, found: str, accepted: str, message: str, *lacking: str) -> None:
        """Note something suspicious that refuses nothing."""
        self.warnings.append(Problem(key, found, accepted, message, lacking))

    # The steps, in the order in which they need each other.

    def worker(
        self, owner: Owner | None, namespace: Namespace | None, pools: Mapping[str, GPUPool] | NotJudged
    ) -> WorkerSpec | None:
        pool_name = self._pool(namespace, pools)
        pool = pools.get(pool_name) if pools is not UNJUDGED and pool_name is not None else None
        mode = self._mode(pool)
        isolation: Isolation = self.pick("isolation", Isolation.SOFT)
        qos: QoS = self.pick("qos", QoS.MEDIUM)
        vendor: Vendor = self.pick("vendor", Vendor.NVIDIA)
        template = self._template(isolation)
        model = self._model()
        indices: tuple[int, ...] | None = self.pick("gpu-indices")
        injected = inject(self.pod, self.annotated, self.problems)
        self.sources["inject-container"] = Source.ANNOTATION if "inject-container" in self.annotated else Source.DERIVED
        counts = split(self.pod, self.annotated, injected, self.problems)
        if (
            counts is not None
            and mode is Mode.REMOTE
            and (pool is not None or "is-local-gpu" in self.annotated or "is-local-gpu" in self.profile)
        ):
            self.refuse(
                "container-gpu-count",
                "a split of the GPUs",
                'is-local-gpu: "true"',
                "{found} works with local GPUs only; set {accepted}",
            )
        gpu_count = self._gpu_count(indices, injected)
        amounts = self._amounts(isolation, template, model)
        workload, self.sources["workload"] = self._workload(owner)
        autoscale = self._autoscale()
        gang = self._gang()
        disabled = self.pick("disable-features", ())
        protection, replicas = self.annotated.get("eviction-protection"), self.annotated.get("enabled-replicas")
        for key, value in (("eviction-protection", protection), ("enabled-replicas", replicas)):
            if value is not None:
                self.sources[key] = Source.ANNOTATION
        if injected is None:
            return None
        profile = self.profile_of
        worker = WorkerSpec(
            mode, pool_name, workload, qos, self.pod.priority_class or PRIORITY_CLASS_PREFIX + qos.value, isolation, vendor,
            gpu_count, injected, amounts.compute_request, amounts.compute_limit, amounts.vram_request, amounts.vram_limit,
            counts, model, indices, amounts.dedicated, template,
            ProfileRef(profile.metadata.name, profile.metadata.generation) if isinstance(profile, WorkloadProfile) else None,
            replicas, autoscale, disabled, protection, gang,
        )  # fmt: skip
        if isinstance(self.quota_of, GPUResourceQuota) and not self.problems:
            self.problems += [
                Problem(self.where(item.field, self.sources.get(item.field)), item.found, item.accepted, item.message)
                for item in quota_problems(worker, self.quota_of)
            ]
        return worker

    def _pool(self, namespace: Namespace | None, pools: Mapping[str, GPUPool] | NotJudged) -> str | None:
        named: str | None = self.pick("gpupool")
        if pools is UNJUDGED:
            return named
        try:
            pool = choose_pool(named, pools)
        except Fault as fault:
            self.refuse("gpupool", fault.found, fault.accepted, fault.message)
            return named
        self.sources.setdefault("gpupool", Source.DEFAULT)
        self.pool = pool.layer()
        name = pool.metadata.name
        if namespace is not None and namespace.labels is not None and not may_use(pool, namespace.labels):
            message = "{found} is not open to namespace " + namespace.name + "; {accepted}"
            self.refuse("gpupool", quote(name), "its namespaceSelector says to which it is", message)
        return name

    def _mode(self, pool: GPUPool | None) -> Mode:
        local: bool = self.pick("is-local-gpu", False)
        standalone: bool = self.pick("standalone-worker-mode", False)
        if local and not standalone:
            return Mode.LOCAL
        mode = Mode.STANDALONE if local else Mode.REMOTE
        if standalone and not local:
            self.warn(
                "standalone-worker-mode",
                "true",
                "is-local-gpu: true",
                "{found} says nothing without {accepted}; ignored",
                "is-local-gpu",
            )
        if pool is not None:
            parts = pool.spec.component_config
            for part, image in (
                ("worker", parts.worker.image if parts and parts.worker else None),
                ("client", parts.client.image if parts and parts.client else None),
            ):
                if not image:
                    wanted = f'componentConfig.{part}.image on GPUPool {pool.metadata.name}, or is-local-gpu: "true"'
                    what = "standalone worker" if local else "remote GPU"
                    self.refuse("is-local-gpu", f"a {what}", wanted, "{found} needs {accepted}")
        return mode

    def _template(self, isolation: Isolation) -> str | None:
        template: str | None = self.pick("partition-template")
        if template is None or isolation is Isolation.PARTITIONED:
            return template
        if self.sources["partition-template"] is Source.ANNOTATION:
            message = "{found} needs {accepted}, and isolation is " + isolation.value
            self.refuse("partition-template", quote(template), "isolation: partitioned", message, "isolation")
        del self.sources["partition-template"]
        return None

    def _model(self) -> str | None:
        model: str | None = self.pick("gpu-model")
        if model is not None and not find(model):
            close = nearest(model)
            hint = f"did you mean {close}?" if close else "`tensorfusion models` lists them"
            self.warn(
                "gpu-model",
                quote(model),
                hint,
                "{found} is not in the catalogue; the pod waits until a node has it; {accepted}",
            )
        return model

    def _gpu_count(self, indices: tuple[int, ...] | None, injected: tuple[str, ...] | None) -> int:
        count, source = self._count_from(indices, injected)
        self.sources["gpu-count"] = source
        both_annotated = "gpu-count" in self.annotated and "gpu-indices" in self.annotated
        if indices is not None and len(indices) < count and not both_annotated:
            self.refuse(
                "gpu-indices",
                f"{len(indices)} indices",
                f"at least {count}",
                "{found} for {gpu-count} " + f"{count}; give {{accepted}}",
            )
        return count

    def _count_from(self, indices: tuple[int, ...] | None, injected: tuple[str, ...] | None) -> tuple[int, Source]:
        if "gpu-count" in self.annotated:
            return self.annotated["gpu-count"], Source.ANNOTATION
        if "container-gpu-count" in self.annotated:
            return sum(self.annotated["container-gpu-count"].values()), Source.DERIVED
        if "gpu-count" in self.profile:
            return self.profile["gpu-count"], Source.PROFILE
        if indices is not None:
            message = "{found}, and nothing says how many GPUs: one for each is taken; to choose among them, give {accepted}"
            self.warn("gpu-indices", f"{len(indices)} indices", "gpu-count", message, "gpu-count", "container-gpu-count")
            return len(indices), Source.DERIVED
        native = self.pod.native_gpus(injected or ())
        return (native, Source.POD) if native else (1, Source.DEFAULT)

    def _amounts(self, isolation: Isolation, template: str | None, model: str | None) -> Asked:
        dedicated: bool = self.pick("dedicated-gpu", False)
        layers = ((Source.ANNOTATION, self.annotated), (Source.PROFILE, self.profile), (Source.QUOTA, self.quota))
        asked = resolve_amounts(layers, dedicated, self.sources, self.problems, self.where)
        if dedicated and model is None:
            self.refuse("dedicated-gpu", "true", "gpu-model", "{found} needs {gpu-model}: which cards to take", "gpu-model")
        unknown = self.profile_of is UNJUDGED or self.quota_of is UNJUDGED
        excused = dedicated or isolation is Isolation.SHARED or (isolation is Isolation.PARTITIONED and template is not None)
        if asked.nothing and not excused and not unknown:
            accepted = "{vram-request}, {tflops-request} or {compute-percent-request}"
            self.problems.append(
                Problem("vram-request", "nothing asked for", "an amount of memory or compute", "{found}: give " + accepted,
                        ("vram-request", "vram-limit", "tflops-request", "tflops-limit", "compute-percent-request",
                         "compute-percent-limit", "workload-profile", "dedicated-gpu", "isolation"))
            )  # fmt: skip
        cards = find(model) if model else ()
        if cards:
            self._model_warnings(model or "", asked, template, max(card.nominal_vram_bytes for card in cards))
        return asked

    def _model_warnings(self, model: str, asked: Asked, template: str | None, largest_bytes: int) -> None:
        if asked.vram_request is not None and asked.vram_request > largest_bytes:
            found = format_bytes(asked.vram_request)
            self.warn(
                "vram-request",
                found,
                format_bytes(largest_bytes),
                "{found} fits no " + model + ", which has {accepted}; the pod waits",
            )
        if template is not None and not any(mig_template(card, template) for card in find(model)):
            self.warn(
                "partition-template",
                quote(template),
                "another model",
                "no " + model + " has {found}; the pod waits for {accepted}",
            )

    def _workload(self, owner: Owner | None) -> tuple[str, Source]:
        named = self.annotated.get("workload")
        if named is not None:
            return named, Source.ANNOTATION
        return (owner.name, Source.OWNER) if owner is not None else (self.pod.name, Source.POD)

    def _autoscale(self) -> AutoscaleTarget | None:
        on: bool = self.pick("autoscale", False)
        target: AutoscaleTarget = self.pick("autoscale-target", AutoscaleTarget.ALL)
        if on:
            return target
        if "autoscale-target" in self.annotated:
            message = "{found} says nothing without {accepted}; ignored"
            self.warn("autoscale-target", target.value, "autoscale: true", message, "autoscale")
        self.sources.pop("autoscale-target", None)
        return None

    def _gang(self) -> Gang | None:
        members: int | None = self.pick("gang-min-members")
        timeout = self.pick("gang-timeout")
        if members:
            return Gang(members, timeout or None)
        if "gang-timeout" in self.annotated:
            message = "{found} says nothing without {accepted}; ignored"
            self.warn("gang-timeout", "a timeout", "gang-min-members", message, "gang-min-members")
        return None
