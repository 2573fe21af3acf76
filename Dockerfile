# syntax=docker/dockerfile:1
# One image for the worker, the MCP service and the server: `docker build -t slowwave .`

FROM python:3.11-slim AS build
WORKDIR /app
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /app/.venv
COPY requirements.lock ./
RUN .venv/bin/pip install -r requirements.lock
COPY . .
RUN .venv/bin/pip install --no-deps -e .

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 slowwave
WORKDIR /app
COPY --from=build --chown=slowwave:slowwave /app /app
RUN install -d -o slowwave -g slowwave /app/memory /app/inbox
USER 10001
# The engine has dozens of threads, and the C library keeps what they free in heaps of their own, unless these are few.
ENV PATH=/app/.venv/bin:$PATH PYTHONUNBUFFERED=1 PREFECT_HOME=/home/slowwave/.prefect MALLOC_ARENA_MAX=2
VOLUME ["/app/memory", "/app/inbox"]
# No health check: the image has no service of its own; compose.yaml checks the server.
# No entry point: workers of Kubernetes and ECS give a command of their own.
# By hand: docker run --rm -v slowwave_memory:/app/memory slowwave slowwave stats
CMD ["slowwave", "--help"]
