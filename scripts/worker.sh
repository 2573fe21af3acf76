#!/bin/sh
# A worker in a container: puts on the server what is missing, deploys, and works.
# SLOWWAVE_STORE: another store than ./memory for all deployments. SLOWWAVE_WORKER_RUNS: how many runs at once (4).
set -eu
python -m tasks.runtime.registration
file=prefect.yaml
if [ -n "${SLOWWAVE_STORE:-}" ]; then
    file=${TMPDIR:-/tmp}/slowwave-deployments.yaml
    sed "s|\./memory|$SLOWWAVE_STORE|g" prefect.yaml >"$file"
fi
prefect --no-prompt deploy --all --prefect-file "$file"
exec prefect worker start --pool slowwave --limit "${SLOWWAVE_WORKER_RUNS:-4}"
