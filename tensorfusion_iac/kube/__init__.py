"""One asynchronous Kubernetes client for every program: requests, lists and watches, server-side apply."""
