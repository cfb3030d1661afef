"""The watchdog: a program of its own, in a container of its own, that thaws what a dead or stalled agent left frozen."""
