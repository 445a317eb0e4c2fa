"""`python -m mainstem.cli`."""

from mainstem.cli.app import main

main()
