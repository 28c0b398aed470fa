# syntax=docker/dockerfile:1.7
# CPU: docker build -f docker/cpu.Dockerfile -t agentgym-rl:cpu . && docker run --shm-size=2g agentgym-rl:cpu train experiment=smoke
FROM python:3.11.13-slim-bookworm AS base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends git libgomp1 libnuma1 libtcmalloc-minimal4 \
    && rm -rf /var/lib/apt/lists/*

FROM base AS build
WORKDIR /opt/agentgym-rl
COPY . .
RUN PYTHON=python3.11 PIP_NO_CACHE_DIR=1 scripts/setup_cpu.sh

FROM base
COPY --from=build /opt/agentgym-rl /opt/agentgym-rl
ENV PATH=/opt/agentgym-rl/.venv/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --create-home --uid 10001 agent
USER 10001
WORKDIR /home/agent
ENTRYPOINT ["agentgym-rl"]
CMD ["--help"]
