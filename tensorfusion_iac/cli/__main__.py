"""`python -m tensorfusion_iac.cli`: the command line, where the program `tensorfusion` is not on PATH."""

from tensorfusion_iac.cli import main

main()
