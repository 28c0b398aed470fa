"""Seconds of a run's training steps by phase, and its generation beside vLLM alone.

    python benchmarks/phases.py RUN              # from its metrics.jsonl, and its summary.json where it is finished
    python benchmarks/phases.py RUN --alone      # also starts vLLM on the episodes of the run's last step

vLLM alone (``vllm.LLM``) generates as many tokens after prompts as long as the run's, a call for each round of turns,
with the model, the context and the prefix cache of the run; the texts are random.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from agentgym_rl.api.runs import RunData, load
from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.tables import read_jsonl

PHASES = {
    "generation": "gen", "old log-probabilities": "old_log_prob", "reference": "ref", "values": "values",
    "scores": "score", "critic": "update_critic", "other models": "update_models", "update": "update_actor",
    "weight sync": "update_weights",
}  # fmt: skip
"""Phases of a step by the name of verl's timing."""
MODEL_WORK = [phase for phase in PHASES if phase != "weight sync"]

Rounds = list[list[tuple[list[int], int]]]
"""Of each round of turns the prompts, and how many tokens to generate for each."""


def steps(folder: Path) -> list[Mapping[str, float]]:
    """Metrics of the training steps."""
    rows = read_jsonl(folder / "metrics.jsonl", torn_end=True)
    return [row for row in rows if "timing_s/step" in row and "timing_s/gen" in row]


def seconds(row: Mapping[str, float]) -> dict[str, float]:
    """Of a step by phase; what no phase names is ``everything else``."""
    named = {phase: row[f"timing_s/{name}"] for phase, name in PHASES.items() if f"timing_s/{name}" in row}
    return {**named, "everything else": row["timing_s/step"] - sum(named.values()), "step": row["timing_s/step"]}


def table(rows: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """A line for each phase: its seconds in every step, and its share of all."""
    by_step = [seconds(row) for row in rows]
    total = sum(step["step"] for step in by_step)
    timed = {phase for step in by_step for phase in step}  # a step that warms up a critic updates no policy
    for phase in [phase for phase in (*PHASES, "everything else", "step") if phase in timed]:
        spent = [step.get(phase, 0.0) for step in by_step]
        yield f"{phase:24s} {' '.join(f'{second:8.2f}' for second in spent)}   {sum(spent) / total:6.1%}"
    outside = [1 - sum(step.get(phase, 0.0) for phase in MODEL_WORK) / step["step"] for step in by_step]
    yield f"outside model work: {median(outside):.1%} of a step (median)"


def facts(rows: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """Medians over the steps of what says how well the device is used."""
    for label, key in {
        "MFU of the update": "perf/mfu/actor", "tokens of a step": "perf/total_num_tokens",
        "most memory, GiB": "actor/perf/max_memory_allocated_gb",
        "sampler against learner, nats": "sync/log_prob_difference", "gradient norm": "actor/grad_norm",
    }.items():  # fmt: skip
        if known := [row[key] for row in rows if key in row]:
            yield f"{label}: {median(known):.4g}"


def peaks(folder: Path) -> Iterator[str]:
    """Most memory of each training worker of a finished run."""
    if not (summary := folder / "summary.json").is_file():
        return
    for process, gib in json.loads(summary.read_text())["memory_gib"].items():
        if process.startswith("training worker"):
            yield f"most memory of {process}, GiB: {gib:.2f}"


def lengths(episodes: Sequence[Episode]) -> list[list[tuple[int, int]]]:
    """Of each episode and turn the tokens of its prompt and of its response; episodes of one segment."""
    return [
        [(episode.prompt_tokens + turn.tokens[0], turn.tokens[1] - turn.tokens[0]) for turn in episode.turns]
        for episode in episodes
        if episode.segments == 1
    ]


def rounds(of_episodes: Sequence[Sequence[tuple[int, int]]], vocabulary: int) -> Rounds:
    """Random prompts of these lengths; those of an episode extend each other."""
    rng = Random(0)
    turns = [episode for episode in of_episodes if episode]
    texts = [[rng.randrange(vocabulary) for _ in range(max(prompt for prompt, _ in episode))] for episode in turns]
    return [
        [(text[: of[turn][0]], of[turn][1]) for text, of in zip(texts, turns, strict=True) if turn < len(of)]
        for turn in range(max(map(len, turns)))
    ]


def alone(model: Path, asked: Rounds, *, context: int, sequences: int, memory_fraction: float) -> tuple[float, float]:
    """Seconds that vLLM takes for all rounds: as they are, and with log-probabilities of tokens, as training asks."""
    from vllm import LLM, SamplingParams

    llm = LLM(str(model), max_model_len=context, max_num_seqs=sequences, gpu_memory_utilization=memory_fraction)

    def generate(some: Rounds, logprobs: int | None) -> float:
        llm.reset_prefix_cache()
        begun = time.perf_counter()
        for prompts in some:
            params = [SamplingParams(max_tokens=tokens, ignore_eos=True, logprobs=logprobs) for _, tokens in prompts]
            llm.generate([{"prompt_token_ids": ids} for ids, _ in prompts], params, use_tqdm=False)
        return time.perf_counter() - begun

    generate(asked[:1], 0)  # warms it up
    return generate(asked, None), generate(asked, 0)


def of_step(run: RunData, number: int) -> list[Episode]:
    """The training episodes of a step."""
    rows = run.episodes
    step = rows["file"].str.split(".").str[0]  # each agent-loop process writes a file of its own
    return [run.episode(row) for row in rows[step == f"step{number:06d}"].to_dict("records")]


def compare_alone(run: RunData, last: Mapping[str, Any]) -> Iterator[str]:
    """Generated tokens a second of a run's last step, whose metrics are given, and of vLLM alone.

    Raises:
        SystemExit: episodes were folded, so that the prompts of their turns are not known.
    """
    config: Any = run.config
    episodes, ours = of_step(run, last["step"]), last["timing_s/gen"]
    if len(of_episodes := lengths(episodes)) < len(episodes):
        raise SystemExit(f"{run.folder} has episodes of several segments, whose prompts are not known")
    tokens = sum(response for episode in of_episodes for _, response in episode)
    folder = next(run.folder.glob("model"), None) or Path(config["model"]["path"])
    context = config["model"]["prompt_tokens"] + config["model"]["response_tokens"]
    took, with_log_probs = alone(
        folder, rounds(of_episodes, 1000), context=context, sequences=config["engine"]["max_sequences"],
        memory_fraction=config["engine"]["memory_fraction"],
    )  # fmt: skip
    yield f"generation: {tokens} tokens; run {tokens / ours:.0f} tokens/s, vLLM alone {tokens / took:.0f} tokens/s"
    yield f"run/alone {took / ours:.2f} (goal >= 0.9); with log-probabilities {with_log_probs / ours:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--alone", action="store_true", help="measure vLLM alone, too")
    args = parser.parse_args()
    rows = steps(args.run)
    if not rows:
        parser.error(f"{args.run} has no training step in metrics.jsonl")
    for line in (*table(rows), *facts(rows), *peaks(args.run)):
        print(line)
    if args.alone:
        for line in compare_alone(load(args.run), rows[-1]):
            print(line, flush=True)


if __name__ == "__main__":
    main()
