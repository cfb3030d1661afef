"""The scheduler extender: GPUs placed under the stock kube-scheduler (SPEC §7)."""
