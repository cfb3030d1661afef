"""Container images made on this machine, without a registry and without a download."""
