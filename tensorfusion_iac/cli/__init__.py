"""The command line `tensorfusion`: commands and nothing else."""
