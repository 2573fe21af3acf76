#!/usr/bin/env bash
# A Prefect server, the deployments and a worker on this machine. Stop with Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."
port="${SLOWWAVE_PORT:-4200}"
bin=.venv/bin
export DO_NOT_TRACK=1
export PREFECT_API_URL="http://127.0.0.1:$port/api" PREFECT_SERVER_API_PORT="$port"
export PREFECT_SERVER_ANALYTICS_ENABLED=false PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT=false
# A run makes many small events: written in groups, the server's database is not the bottleneck.
export PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE=100 PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE=100
export PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL=1
export PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE=200 PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE=100
export PREFECT_WORKER_QUERY_SECONDS=2

"$bin/prefect" server start --port "$port" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
until "$bin/python" -c "import urllib.request as u; u.urlopen('$PREFECT_API_URL/health', timeout=2)" 2>/dev/null; do sleep 1; done
"$bin/prefect" work-pool inspect slowwave >/dev/null 2>&1 || "$bin/prefect" work-pool create slowwave --type process
"$bin/prefect" --no-prompt deploy --all
echo "The deployments are at http://127.0.0.1:$port/deployments"
exec "$bin/prefect" worker start --pool slowwave
