"""`python -m slowwave` is the command `slowwave`."""

from slowwave.launcher import main

main()
