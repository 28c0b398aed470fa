# syntax=docker/dockerfile:1.7
# GPU: docker build -f docker/gpu.Dockerfile -t agentgym-rl:gpu .   (needs no GPU to build, an NVIDIA driver of 580 or newer to run)
# vLLM and Triton compile kernels when they start, so that the compiler is part of the image that runs.
FROM nvidia/cuda:13.0.2-devel-ubuntu24.04 AS base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends git python3.12 python3.12-dev python3.12-venv \
    && rm -rf /var/lib/apt/lists/*

FROM base AS build
WORKDIR /opt/agentgym-rl
COPY . .
RUN PYTHON=python3.12 VENV=/opt/venv PIP_NO_CACHE_DIR=1 scripts/setup_gpu.sh

FROM base
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/agentgym-rl /opt/agentgym-rl
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
RUN useradd --create-home --uid 10001 agent
USER 10001
WORKDIR /home/agent
CMD ["agentgym-rl", "--help"]
