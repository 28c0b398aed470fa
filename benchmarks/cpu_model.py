"""A pretrained model on a CPU: our worker beside plain PyTorch, and our rollout beside vLLM alone, in one run.

training    one supervised update on the same examples, in tokens/s, on all cores
  ours        the training worker: Ray, FSDP2, rows without padding, logits where the loss reads them
  plain       a PyTorch loop: padded micro-batches of as many tokens, all logits, AdamW
  tight       the same row by row, so without padding, with logits where the loss reads them
generation  the same prompts, and as many tokens of each response, in generated tokens/s
  ours        ``run_episode`` on the training's vLLM server; environments answer at once
  offline     ``vllm.LLM.generate``, a call for each round of turns

The sides take turns; prefix caches start empty. The model is a folder; its tokenizer needs a chat template. In bfloat16
the PyTorch loops run under autocast, with float32 weights as the worker's.

    python benchmarks/cpu_model.py MODEL_FOLDER [--repeats 3] [--episodes 24] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import torch
from load import Busy, Metered
from options import positive
from paced import ENVS, Script, record
from rich.console import Console
from rollout import Model, engine, episodes, ours, requests
from torch.nn.functional import cross_entropy

from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.rows import imitation
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.config import Config, EnvConfig
from agentgym_rl.engine.run.progress import Progress
from agentgym_rl.engine.run.session import variables
from agentgym_rl.engine.verl.environment import cores
from agentgym_rl.rollout.supervised import Example

MICRO_TOKENS, LR, GOAL = 1024, 1e-5, 0.9
KV_CACHE_GIB = 1
"""Of the engine's vLLM and of vLLM alone, which by default takes most of the machine's memory."""
PROMPT, RESPONSE = 1024, 3072
"""Most tokens of the prompts and responses."""
BUCKET_MB = 512
"""Has room for the largest tensor of the model."""
APART = {"float32": 1e-3, "bfloat16": 2e-2}
"""How far the losses of two sides may lie apart."""

Rounds = list[list[tuple[list[int], int]]]
"""Of each round of turns the prompts, and how many tokens to generate for each."""


def recipe(model: str, dtype: str) -> Config:
    """The engine of a run with this model."""
    config = recipes.load(
        [
            "experiment=smoke", "algorithm=grpo", f"model={model}", f"model.prompt_tokens={PROMPT}",
            f"model.response_tokens={RESPONSE}", f"engine.micro_tokens={MICRO_TOKENS}", "engine.start_seconds=900",
            f"engine.dtype={dtype}", f"engine.kv_cache_gib={KV_CACHE_GIB}",
            f"verl.actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes={BUCKET_MB}",
        ]
    )  # fmt: skip
    config.envs = {name: EnvConfig() for name in ENVS}
    return config


def examples(scripts: Sequence[Script], tokenizer: Any, count: int) -> list[Example]:
    """Conversations of random words with the lengths of recorded episodes; responses carry the loss."""
    rng, conversations = Random(0), []
    for script in scripts[:count]:
        ids = tokenizer.apply_chat_template(list(script.opening), return_dict=False)
        weights = [0.0] * len(ids)
        for text in script.observations:
            observed = len(tokenizer.encode(text)) + 8
            ids = ids + [rng.randrange(len(tokenizer)) for _ in range(script.reply_tokens + observed)]
            weights += [1.0] * script.reply_tokens + [0.0] * observed
        conversations.append(Example(ids, weights))
    return conversations


class Worker:
    """The training worker of a running engine."""

    def __init__(self, trainer: Any) -> None:
        from agentgym_rl.engine.verl.updates import row_loss

        self.workers = trainer.actor_rollout_wg
        self.workers.set_loss_fn(partial(row_loss, loss=CROSS_ENTROPY))
        self.workers.set_optimizer(LR, 0.0, (0.9, 0.999), 1.0)
        self.workers.set_threads(cores())

    def update(self, batch: Sequence[Example]) -> float:
        """One optimizer step; returns the loss."""
        from agentgym_rl.engine.verl.updates import row_batch

        rows, longest = [imitation(example) for example in batch], max(len(example.input_ids) for example in batch)
        data = row_batch(rows, CROSS_ENTROPY, len(batch), 1.0, longest)
        return float(self.workers.update_actor(data)["metrics"]["loss"][0])


class Plain:
    """What a short PyTorch program would do."""

    def __init__(self, path: str, dtype: str, *, tight: bool) -> None:
        from transformers import AutoModelForCausalLM

        self.tight, self.rounded = tight, dtype == "bfloat16"
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa").train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LR, weight_decay=0.0)

    def update(self, batch: Sequence[Example]) -> float:
        """One optimizer step; returns the loss."""
        torch.set_num_threads(cores())
        self.optimizer.zero_grad()
        count = sum(weight > 0 for example in batch for weight in example.loss_weight)
        total = 0.0
        for rows in [[row] for row in batch] if self.tight else micro_batches(batch):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.rounded):
                loss = self.loss(rows) / count
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return total

    def loss(self, rows: Sequence[Example]) -> torch.Tensor:
        """Summed over the tokens with loss."""
        pad = torch.nn.utils.rnn.pad_sequence
        ids = pad([torch.tensor(row.input_ids) for row in rows], batch_first=True)
        read = pad([torch.tensor(row.loss_weight) > 0 for row in rows], batch_first=True)[:, 1:]
        seen = pad([torch.ones(len(row.input_ids), dtype=torch.int64) for row in rows], batch_first=True)
        if self.tight:
            places = read[0].nonzero().squeeze(1)
            logits = self.model(input_ids=ids, logits_to_keep=places, use_cache=False).logits[0]
            return cross_entropy(logits, ids[0, 1:][places], reduction="sum")
        logits = self.model(input_ids=ids, attention_mask=seen, use_cache=False).logits[:, :-1]
        return cross_entropy(logits[read], ids[:, 1:][read], reduction="sum")


def micro_batches(batch: Sequence[Example]) -> Iterator[list[Example]]:
    """Rows in the order of their lengths, as many as fit with their padding."""
    rows: list[Example] = []
    for row in sorted(batch, key=lambda row: len(row.input_ids)):
        if rows and (len(rows) + 1) * len(row.input_ids) > MICRO_TOKENS:
            yield rows
            rows = []
        rows.append(row)
    yield rows


@contextmanager
def offline(path: str, dtype: str) -> Iterator[Callable[[Rounds], float]]:
    """vLLM alone in a process of its own, as ``vllm.LLM`` starts it; gives the seconds of rounds of prompts."""
    process = subprocess.Popen(
        [sys.executable, __file__, path, "--dtype", dtype, "--serve-rounds"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env=os.environ | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"},
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    into, out = process.stdin, process.stdout

    def answer() -> float:
        for line in out:
            if line.startswith("seconds "):
                return float(line.split()[1])
        raise RuntimeError("vLLM alone ended; what it wrote above says why")

    def seconds(rounds: Rounds) -> float:
        into.write(json.dumps(rounds) + "\n")
        into.flush()
        return answer()

    try:
        answer()  # it is up
        yield seconds
    finally:
        into.close()
        process.wait()


def serve_rounds(path: str, dtype: str) -> None:
    """The process of :func:`offline`."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        path, dtype=dtype, enforce_eager=True, max_model_len=PROMPT + RESPONSE, max_num_seqs=256,
        kv_cache_memory_bytes=KV_CACHE_GIB << 30,
    )  # fmt: skip
    print("seconds 0", flush=True)
    for line in sys.stdin:
        llm.reset_prefix_cache()
        begun = time.perf_counter()
        for prompts in json.loads(line):
            llm.generate(
                [{"prompt_token_ids": ids} for ids, _ in prompts],
                [SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True) for _, tokens in prompts],
                use_tqdm=False,
            )
        print(f"seconds {time.perf_counter() - begun}", flush=True)


def timed(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def training(model: Model, path: str, dtype: str, batch: Sequence[Example], repeats: int) -> dict[str, list[float]]:
    """Seconds of an update by side; the first one of each warms it up and shows that all compute the same loss."""
    sides: dict[str, Any] = {"ours": Worker(model.trainer), "plain": Plain(path, dtype, tight=False)}
    sides["tight"] = Plain(path, dtype, tight=True)
    losses = {side: updater.update(batch) for side, updater in sides.items()}
    if max(losses.values()) - min(losses.values()) > APART[dtype]:
        raise RuntimeError(f"the sides compute different losses: {losses}")
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(repeats):
        for side, updater in sides.items():
            seconds[side].append(timed(lambda updater=updater: updater.update(batch)))
    return seconds


def generation(
    model: Model, path: str, dtype: str, scripts: Sequence[Script], count: int, repeats: int
) -> tuple[int, dict[str, list[float]]]:
    """Tokens to generate, and seconds by side."""
    batch = episodes(scripts, count, "0", 0.0, "0")
    asked = requests(model, batch)
    rounds: Rounds = [
        [(turns[turn].prompt_ids, turns[turn].sampling_params["max_tokens"]) for turns in asked if turn < len(turns)]
        for turn in range(max(map(len, asked)))
    ]
    seconds: dict[str, list[float]] = {"ours": [], "offline": []}
    with offline(path, dtype) as alone:
        alone(rounds[:1])
        for _ in range(repeats):
            model.forget()
            seconds["ours"].append(timed(lambda: asyncio.run(ours(model, Metered(model.client), Busy(), batch))))
            seconds["offline"].append(alone(rounds))
    return sum(tokens for prompts in rounds for _, tokens in prompts), seconds


def show(what: str, tokens: int, seconds: dict[str, list[float]]) -> None:
    """Rates of every side, and how ours compares."""
    rates = {side: [tokens / took for took in of_side] for side, of_side in seconds.items()}
    for side, of_side in rates.items():
        print(f"{what:11s} {side:8s} {median(of_side):7.1f} [{min(of_side):.1f}, {max(of_side):.1f}] tokens/s")
    for side, of_side in rates.items():
        if side != "ours":
            ratio = median(rates["ours"]) / median(of_side)
            verdict = "met" if ratio >= GOAL else "missed"
            print(f"{what:11s} ours/{side} {ratio:.2f} (goal >= {GOAL:g}: {verdict})")


def setting(model: str, dtype: str, counts: str) -> str:
    """What a measurement was made with."""
    return f"{cores()} cores, {Path(model).name}, {dtype}, {counts}, load {os.getloadavg()[1]:.1f}; median [min, max]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of a Hugging Face model")
    parser.add_argument("--repeats", type=positive, default=3, help="of each side")
    parser.add_argument("--episodes", type=positive, default=24, help="at once; a quarter of them make the update")
    parser.add_argument("--dtype", choices=list(APART), default="float32", help="of the arithmetic, on all sides")
    parser.add_argument("--serve-rounds", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_rounds:
        serve_rounds(args.model, args.dtype)
        return
    config = recipe(args.model, args.dtype)
    environment = variables(config.engine)
    if not environment.items() <= os.environ.items():  # PyTorch reads those of its threads when it is imported
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | environment)
    with Progress(Console()) as progress, engine(config, progress.say) as model:
        scripts = asyncio.run(record(args.episodes, lambda text: len(model.tokenizer.encode(text))))
        batch = examples(scripts, model.tokenizer, max(2, args.episodes // 4))
        progress.say(f"training on {len(batch)} examples")
        learnt = training(model, args.model, args.dtype, batch, args.repeats)
        progress.say(f"generating for {args.episodes} episodes")
        tokens, generated = generation(model, args.model, args.dtype, scripts, args.episodes, args.repeats)
    size = sum(len(example.input_ids) for example in batch)
    read = sum(weight > 0 for example in batch for weight in example.loss_weight)
    print(f"\n{setting(args.model, args.dtype, f'{args.repeats} repeats')}")
    print(f"an update: {len(batch)} examples, {size} tokens, {read} with loss; micro-batches of {MICRO_TOKENS} tokens")
    print(f"generation: {args.episodes} episodes, {tokens} tokens")
    show("training", size, learnt)
    show("generation", tokens, generated)


if __name__ == "__main__":
    main()
