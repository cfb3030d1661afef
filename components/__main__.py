"""The component plugin `tensorfusion`: what Pulumi starts for programs in YAML, TypeScript, Go and others (API.md)."""

import sys


def serve() -> None:
    """Serve the components until Pulumi ends the process."""
    try:
        from pulumi.provider import main
        from shims.declared import COMPONENTS, arguments_of
        from shims.plugin import Plugin, refuse
        from shims.received import in_camel_case

        from tensorfusion_iac.components.errors import refused_by
        from tensorfusion_iac.components.vgpu import ARGUMENTS
    except ModuleNotFoundError as error:
        sys.exit(f"error: {sys.executable} has no {error.name}: run `make setup` in the checkout of tensorfusion-iac")
    names = {*ARGUMENTS, *(name for component in COMPONENTS for name in arguments_of(component))}
    with refused_by(refuse, in_camel_case(names)):
        main(Plugin(), sys.argv[1:])


if __name__ == "__main__":
    serve()
