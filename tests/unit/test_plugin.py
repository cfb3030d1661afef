"""The component plugin's declarations beside the Python components, and its schema. `PYTHONPATH=components
python tests/unit/test_plugin.py` writes the golden file anew, for review.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pulumi
import pytest
from shims.arguments import VGPU
from shims.declared import COMPONENTS, Requested, arguments_of, outputs_of
from shims.plugin import Plugin
from shims.received import in_camel_case, received, whole

import tensorfusion_iac.components as real
from tensorfusion_iac.api.fields import FIELDS

CHECKOUT = Path(__file__).parents[2]
GOLDEN = CHECKOUT / "tests" / "golden" / "schema.json"

DECLARED = {component.__name__: component for component in COMPONENTS}


def schema() -> str:
    return json.dumps(json.loads(Plugin().schema or ""), indent=1) + "\n"


def python_arguments(component: type) -> set[str]:
    """The arguments of a Python component: the keys of the TypedDict that its `**arguments` unpack."""
    unpacked = inspect.get_annotations(component.__init__, eval_str=True)["arguments"]
    return set(unpacked.__args__[0].__annotations__)


def test_every_component_of_the_package_is_declared() -> None:
    exported = [getattr(real, name) for name in real.__all__]
    components = {item.__name__ for item in exported if inspect.isclass(item) and issubclass(item, pulumi.ComponentResource)}
    assert set(DECLARED) == components


@pytest.mark.parametrize("name", DECLARED)
def test_a_component_takes_the_same_arguments_in_every_language(name: str) -> None:
    assert set(arguments_of(DECLARED[name])) == python_arguments(getattr(real, name)), "declare it in components/shims too"


@pytest.mark.parametrize("name", DECLARED)
def test_what_a_component_gives_back_is_there(name: str) -> None:
    component = getattr(real, name)
    assert all(output in component.__annotations__ or hasattr(component, output) for output in outputs_of(DECLARED[name]))


def test_a_vgpu_has_a_setting_for_each_annotation() -> None:
    assert set(VGPU.__annotations__) == {row.argument for row in FIELDS} | {"enabled"}


def test_what_a_workload_asks_for_is_told_whole() -> None:
    from tensorfusion_iac.components.requested import Requested as Told

    assert set(Requested.__annotations__) == set(Told.__annotations__)


def test_every_argument_is_explained_in_the_schema() -> None:
    loaded = json.loads(schema())
    properties = {
        **{name: resource["inputProperties"] for name, resource in loaded["resources"].items()},
        "VGPU": loaded["types"]["tensorfusion:index:VGPU"]["properties"],
    }
    assert [(name, key) for name, of in properties.items() for key, value in of.items() if not value.get("description")] == []


def test_the_golden_schema_is_what_the_plugin_serves() -> None:
    assert schema() == GOLDEN.read_text(), "if that is meant: PYTHONPATH=components python tests/unit/test_plugin.py"


def test_names_and_numbers_arrive_as_python_has_them() -> None:
    inputs = {"replicas": 2.0, "ports": [8000.0], "podSpec": {"someKey": 1.5}, "vgpu": {"tflopsRequest": 62.5, "gpuCount": 4.0}}
    arguments = received(inputs, ["replicas", "ports", "pod_spec", "vgpu"])
    assert arguments == {
        "replicas": 2,
        "ports": [8000],
        "pod_spec": {"someKey": 1.5},
        "vgpu": real.VGPU(tflops_request=62.5, gpu_count=4),
    }
    assert type(arguments["replicas"]) is int


@pytest.mark.parametrize("flag", [True, False])
def test_a_flag_stays_a_flag(flag: bool) -> None:
    assert whole(flag) is flag


def test_what_no_argument_has_is_not_dropped() -> None:
    assert received({"replicaz": 2.0, "gpuModel": "A100"}, ["replicas"]) == {"replicaz": 2, "gpu_model": "A100"}
    with pytest.raises(real.SpecError) as refused:
        received({"vgpu": {"vramReqest": "4Gi"}}, ["vgpu"])
    assert "vgpu.vram_reqest: no such argument; did you mean vram_request?" in str(refused.value)


def test_messages_call_arguments_as_the_author_does() -> None:
    spell: Any = in_camel_case(["vram_request", "vram_limit"])
    assert spell("vgpu.vram_limit: below vram_request; my_label stays") == "vgpu.vramLimit: below vramRequest; my_label stays"


if __name__ == "__main__":
    GOLDEN.write_text(schema())
