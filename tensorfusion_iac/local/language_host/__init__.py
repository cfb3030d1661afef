"""A Python language host for the pulumi command, for machines that lack the official one (research/pulumi.md §5).

The pulumi command starts `pulumi-language-python` (toolchain/bin_dir.py writes it) and talks gRPC with it: the service
LanguageRuntime of the protocol that the pulumi SDK brings. docs/tools.md tells what this host does and does not do.
"""
