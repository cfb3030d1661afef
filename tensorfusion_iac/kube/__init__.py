"""What every program has of Kubernetes: one asynchronous client (lists, watches, server-side apply), caches, lease, telemetry."""
