"""Real nodes on this machine: kubelet, containerd and kube-proxy in namespaces, with simulated cards (docs/local.md)."""
