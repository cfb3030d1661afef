"""Running a Pulumi program without an engine, a cluster or the pulumi program, to learn what it declares (`compile`).

`record.py` runs in a process of its own, with the program's Python; everything else here runs in the command.
"""
