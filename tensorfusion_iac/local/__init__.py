"""The embedded control plane: real Kubernetes programs on loopback, simulated GPU nodes, and the tools they need."""
