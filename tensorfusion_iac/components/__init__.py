"""The Pulumi components: what users declare."""
