#!/usr/bin/env bash
# A run as a job of a running Ray cluster, whose nodes have this package and the same token (RAY_AUTH_TOKEN_PATH):
#
#   examples/clusters/submit.sh http://HEAD:8265 experiment=textcraft_grpo_3b run.dir=/shared/runs/textcraft engine.nodes=2
#
# Several jobs run side by side as far as there are GPUs, and wait for the others beyond that (engine.start_seconds).
# `ray job stop` ends a run with SIGTERM: it saves. Ray then waits RAY_JOB_STOP_WAIT_TIME_S seconds (3 by default), which
# has to be set on the head node to more than run.stop_seconds.
set -euo pipefail
address=${1:?the address of the dashboard, http://HEAD:8265}
shift
exec ray job submit --address "$address" --no-wait -- agentgym-rl train "$@" engine.ray_address=auto
