#!/usr/bin/env bash
# Shows that this machine trains: a small run that is killed and goes on, SmolLM2 under GRPO and AgentEvol, seconds by phase of
# GRPO steps with the shape of Qwen2.5-1.5B beside vLLM alone, and the update by itself. About 20 minutes on one H100; what is
# done is not done again, so that the same command goes on where it was cut off.
#
#   examples/clusters/one_gpu.sh [FOLDER]      # everything is written there; default runs/one_gpu
#
#   ENGINE   gpu, or cpu: the same steps at a tiny size, to try the script          (default: gpu)
#   MODEL    SmolLM2's folder, or its name, which fetches it                          (default: smollm2_135m)
#   STEPS    which steps, in this order                                               (default: all)
#   LIMIT    seconds; no step begins with fewer than 60 left, and each ends by then (default: 86400)
#   TASKS    of a step of the shape, eight episodes each, on a GPU                    (default: 24)
#   TRAINED  its steps                                                                (default: 3)
#   BY       agentgym-rl by another name                                              (default: agentgym-rl)
#   KEYS     more keys of every run, such as engine.memory_fraction=0.3
set -uo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-runs/one_gpu}
ENGINE=${ENGINE:-gpu} MODEL=${MODEL:-smollm2_135m} LIMIT=${LIMIT:-86400} BY=${BY:-agentgym-rl} PYTHON=${PYTHON:-python}
STEPS=${STEPS:-bench smoke shape smollm2}
mkdir -p "$out"
left() { echo $((LIMIT - SECONDS)); }
say() { printf '%s %s\n' "$(date +%T)" "$*" | tee -a "$out/times.txt"; }
limited() { [ "$(left)" -gt 0 ] && timeout --signal=INT --kill-after=20 "$(left)" "$@"; }

read -ra keys <<<"${KEYS:-}"
common=(logger.wandb=disabled "engine=$ENGINE" engine.workers=1 ${keys[@]+"${keys[@]}"})
if [ "$ENGINE" = gpu ]; then
    small=("model=$MODEL" model.prompt_tokens=512 model.response_tokens=768 model.train_layers=20 rollout.max_new_tokens=48 cloning.lr=1e-4)
    shape=(model.prompt_tokens=1024 model.response_tokens=3584 rollout.max_new_tokens=256 envs.textcraft.max_turns=12
        algorithm.tasks_per_step="${TASKS:-24}" algorithm.samples_per_task=8 algorithm.mini_batch_tasks="${TASKS:-24}"
        algorithm.steps="${TRAINED:-3}")
    options=() bench=()
else
    small=() options=(--tiny) bench=(--device cpu --tiny)
    shape=(model.response_tokens=768 rollout.max_new_tokens=16 envs.textcraft.max_turns=4
        algorithm.tasks_per_step=4 algorithm.samples_per_task=4 algorithm.mini_batch_tasks=4 algorithm.steps=3)
fi

bench() { limited "$PYTHON" "$here/benchmarks/gpu.py" --repeats 3 "${bench[@]}"; }

smoke() { # killed without warning after its second step, then the same command again
    local run=("$BY" train experiment=smoke algorithm=grpo "${common[@]}" "${small[@]}" run.cache=null algorithm.steps=4 algorithm.loss.kl=0.001
        "run.dir=$out/smoke")
    if [ ! -e "$out/smoke/killed" ]; then
        setsid "${run[@]}" &
        local pid=$!
        # shellcheck disable=SC2064  # of this process
        trap "kill -9 -- -$pid 2>/dev/null; exit 130" INT TERM HUP
        until [ -e "$out/smoke/checkpoints" ] && grep -qs '"stage/grpo": 2' "$out/smoke/metrics.jsonl"; do
            kill -0 $pid 2>/dev/null && [ "$(left)" -gt 0 ] || break
            sleep 1
        done
        kill -9 -- -$pid 2>/dev/null
        wait $pid
        trap - INT TERM HUP
        grep -qs '"stage/grpo": 2' "$out/smoke/metrics.jsonl" || return 1
        sleep 5 # its workers end when their driver is gone
        touch "$out/smoke/killed"
        say "smoke: killed after step 2"
    fi
    limited "${run[@]}"
}

tokenizer() { # folder of the model whose tokenizer the random weights get
    if [ "$ENGINE" = cpu ]; then echo "$out/smoke/model"; elif [ -d "$MODEL" ]; then echo "$MODEL"; else "$BY" fetch "$MODEL" | tail -n 1; fi
}

shape() { # seconds by phase of GRPO steps with random weights
    local model=$out/shape-model
    [ -e "$model/config.json" ] || limited "$PYTHON" "$here/benchmarks/shape_model.py" "$model" --tokenizer "$(tokenizer)" "${options[@]}" || return
    limited "$BY" train experiment=smoke algorithm=grpo "${common[@]}" "model=$model" "${shape[@]}" run.cache=null rollout.invalid_limit=null \
        cloning.epochs=0 run.evaluate_untrained=false run.save_every=0 envs.textcraft.demonstrations=0 envs.textcraft.panels.new_variants.n=1 \
        algorithm.loss.kl=0.001 algorithm.lr=1e-6 run.greedy=false "run.dir=$out/shape" || return
    limited "$PYTHON" "$here/benchmarks/phases.py" "$out/shape" --alone
}

smollm2() { # both algorithms from the same cloned weights, on one engine
    local experiment=smollm2
    [ "$ENGINE" = gpu ] || experiment=smoke
    limited "$BY" train -m "experiment=$experiment" algorithm=grpo,agentevol "${common[@]}" "run.cache=$out/cloned" \
        ${small[0]:+"model=$MODEL"} "run.dir=$out/\${name}" name="$experiment-\${algorithm.name}"
}

failed=0
for step in $STEPS; do
    [ -e "$out/$step.done" ] && continue
    [ "$(left)" -gt 60 ] || { say "no time left for $step; the same command goes on"; failed=1; break; }
    say "$step"
    if "$step" 2>&1 | tee -a "$out/$step.txt"; then touch "$out/$step.done" && say "$step done"; else say "$step failed, see $out/$step.txt"; failed=1; fi
done
exit $failed
