#!/usr/bin/env bash
# Installs what a GPU machine needs into a folder of its own: the versions in constraints/gpu.txt, which are those of verl
# 0.9.1's own image (CUDA 13.0, torch 2.11, vLLM 0.24, transformers 5.9) without flash-attn, and this project in editable
# mode. Several GB are downloaded; an NVIDIA driver of 580 or newer runs them.
#
#   PYTHON  interpreter, 3.12               (default: python3.12)
#   VENV    folder of the environment       (default: .venv-gpu; on a cluster one that all nodes see)
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=${VENV:-.venv-gpu}
DRIVER=580

fail() { printf 'setup: %s\n' "$1" >&2; exit 1; }

PYTHON=${PYTHON:-python3.12}
[ "$("$PYTHON" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null)" = "3 12" ] ||
    fail "$PYTHON is not Python 3.12, which constraints/gpu.txt is for (verl needs less than 3.13); name one with PYTHON=..."

driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null) || driver=
driver=${driver%%$'\n'*} # a line a GPU
if [ -z "$driver" ]; then
    printf 'setup: no NVIDIA driver answers here; the set-up imports without one, and trains nothing\n' >&2
elif [ "${driver%%.*}" -lt "$DRIVER" ]; then
    fail "the NVIDIA driver is $driver, and CUDA 13.0 needs $DRIVER or newer"
fi

"$VENV/bin/python" -m pip --version >/dev/null 2>&1 || "$PYTHON" -m venv "$VENV" || fail "$PYTHON cannot make a virtual environment"
pip() { "$VENV/bin/python" -m pip --no-input --disable-pip-version-check "$@"; }
pip install --no-deps -r constraints/gpu.txt
pip install --no-deps --no-build-isolation -e .
"$VENV/bin/python" scripts/check_gpu.py
printf 'ready: %s/bin/agentgym-rl train ... engine=gpu\n' "$VENV"
