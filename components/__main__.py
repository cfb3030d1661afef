"""The component plugin `tensorfusion`: what Pulumi starts for programs in YAML, TypeScript, Go and others (API.md)."""

import sys

from pulumi.provider import main
from shims.declared import COMPONENTS, arguments_of
from shims.plugin import Plugin, refuse
from shims.received import in_camel_case

from tensorfusion_iac.components.errors import refused_by
from tensorfusion_iac.components.vgpu import ARGUMENTS

if __name__ == "__main__":
    names = {*ARGUMENTS, *(name for component in COMPONENTS for name in arguments_of(component))}
    with refused_by(refuse, in_camel_case(names)):
        main(Plugin(), sys.argv[1:])
