#!/bin/sh
# A worker in a container: puts on the server what is missing, deploys, and works.
set -eu
python scripts/register.py
prefect --no-prompt deploy --all
exec prefect worker start --pool slowwave
