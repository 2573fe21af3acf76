"""`python -m slowwave` is the command `slowwave`."""

from .launcher import main

main()
