"""The controller: workloads, pools and quotas kept true (SPEC §4, §8)."""
