"""Simulated GPUs for real processes: NVIDIA's library from a mapped file, cards that work, jobs that ask for work."""
