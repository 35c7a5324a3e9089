"""`python -m tiduc`."""

from tiduc.cli import main

main()
