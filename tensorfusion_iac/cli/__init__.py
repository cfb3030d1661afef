"""The command line, `tensorfusion`: `main()` is its entry, each command is a module of its own, loaded when it is called."""

from tensorfusion_iac.cli.application import app, kubectl_plugin, main

__all__ = ["app", "kubectl_plugin", "main"]
