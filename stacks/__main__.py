"""The quick start as one stack: a pool and four workloads."""

from quickstart import cluster, declare_platform, declare_workloads

provider = cluster()
declare_workloads(provider, declare_platform(provider))
