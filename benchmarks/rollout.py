"""The rollout: a task for each episode, beside lockstep rounds and what model and environments allow, in one run.

Episodes are those of TextCraft, BabyAI and Maze as their oracles play them: their texts, turns and lengths of replies.
Environments answer with what was recorded, after 0, 10 or 100 ms or with a heavy tail (lognormal, p99 = 20 x median).
The model is a tiny one behind verl's vLLM servers; it decodes greedily and as many tokens as the oracle's reply has.
Every side plays the same episodes with the same waiting times against the same servers; prefix caches start empty.

ours               ``agentgym_rl.rollout.loop.run_episode`` and ``TokenConversation``
lockstep           rounds as AgentGym-RL plays them (``lockstep.py``), without its pause of 1 s a round
lockstep+1s        with it
model only         the same requests, each sent when the reply to the one before it is there
environments only  the same waiting times, one after the other
longest alone      the episode that waits and generates most, played by ours with nothing beside it

The bound is the longer one of *model only* and *environments only*. No rollout reaches it where *longest alone* takes
longer: an episode's turns wait for each other. All episodes of a side start at once.

    python benchmarks/rollout.py                                   # about a quarter of an hour on two cores
    python benchmarks/rollout.py --in-flight 16 64 --latency tail --repeats 1
    python benchmarks/rollout.py --every-pair --journal rollout.jsonl    # stop it and go on where it was
    python benchmarks/rollout.py --in-flight 256 --latency 0 --repeats 1 --profile    # which packages take the time

Without ``--every-pair`` every number of episodes is played with the last latency, and every latency with as many
episodes as ``--at`` says.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import where
from load import Busy, Cost, Metered, Request
from lockstep import PAUSE_S, lockstep
from options import positive
from paced import ENVS, PacedEnv, Script, latencies, record, understand
from rich.console import Console
from rollout_tables import NO_ENV, Row, show

from agentgym_rl.data.episode import Ending
from agentgym_rl.data.files import append_jsonl, read_jsonl
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.config import Config, EnvConfig
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run import tiny
from agentgym_rl.engine.run.progress import Progress
from agentgym_rl.engine.run.session import variables
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.tokens import TokenConversation

SCRIPTS = 120
"""Recorded episodes of each environment."""
SETTINGS = RolloutSettings(style="compact", retries=0)


@dataclass(frozen=True, slots=True)
class Paced:
    """An episode to play: what happens in it, and how long its environment takes."""

    script: Script
    waits: list[float]


@dataclass(frozen=True)
class Model:
    """A running engine."""

    client: Any
    tokenizer: Any
    builder: Any
    forget: Callable[[], None]
    """Empties the servers' prefix caches."""
    trainer: Any
    """Has the training workers."""

    def conversation(self, server: Metered, script: Script) -> TokenConversation:
        return TokenConversation(
            server=server,
            tokenizer=self.tokenizer,
            builder=self.builder,
            sampling={"temperature": 0.0, "top_p": 1.0, "top_k": -1, "ignore_eos": True},
            prompt_limit=1024,
            response_limit=4096,
            settings=replace(SETTINGS, max_new_tokens=script.reply_tokens),
        )


def episodes(scripts: Sequence[Script], count: int, latency: str, median_ms: float, seed: str) -> list[Paced]:
    """Episodes whose turns are distributed like the scripts', whatever their number."""
    by_turns = sorted(scripts, key=lambda script: script.turns)
    chosen = [by_turns[(2 * place + 1) * len(by_turns) // (2 * count)] for place in range(count)]
    rng = Random(seed)
    rng.shuffle(chosen)
    return [Paced(script, latencies(latency, median_ms, script.turns + 1, rng)) for script in chosen]


async def ours(model: Model, server: Metered, busy: Busy, batch: Sequence[Paced]) -> None:
    """The rollout of training."""

    async def play(paced: Paced) -> None:
        episode, _ = await run_episode(
            lambda: PacedEnv(paced.script, paced.waits, busy),
            paced.script.task,
            lambda: model.conversation(server, paced.script),
            SETTINGS,
            paced.script.turns,
            understand,
        )
        if episode.ending is not Ending.TERMINATED:
            raise RuntimeError(f"{episode.item_id} ended with {episode.ending}: {episode.error}")

    await asyncio.gather(*map(play, batch))


async def rounds(model: Model, server: Metered, busy: Busy, batch: Sequence[Paced], pause_s: float) -> None:
    """The same in lockstep."""
    envs = [PacedEnv(paced.script, paced.waits, busy) for paced in batch]
    await lockstep(envs, [model.conversation(server, paced.script) for paced in batch], pause_s)


async def model_only(server: Metered, asked: Sequence[Sequence[Request]]) -> None:
    """The requests of ours, without environments, parsing or tokenizing."""

    async def ask(requests: Sequence[Request]) -> None:
        for request in requests:
            await server.generate(
                request_id=request.request_id, prompt_ids=request.prompt_ids, sampling_params=request.sampling_params
            )

    await asyncio.gather(*map(ask, asked))


def length(paced: Paced) -> float:
    """Of an episode, in seconds, if a token took 5 ms."""
    return sum(paced.waits) + 0.005 * paced.script.turns * paced.script.reply_tokens


async def envs_only(busy: Busy, batch: Sequence[Paced]) -> None:
    """The waiting times of the environments, without a model."""

    async def play(paced: Paced) -> None:
        for seconds in paced.waits:
            with busy:
                await asyncio.sleep(seconds)

    await asyncio.gather(*map(play, batch))


def play_side(side: str, model: Model, batch: Sequence[Paced], asked: Sequence[Sequence[Request]]) -> Row:
    """Play one side once and say what it cost."""
    model.forget()
    batch = [max(batch, key=length)] if side == "longest alone" else batch
    server, busy = Metered(model.client), Busy()
    runs: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(model, server, busy, batch),
        "lockstep": lambda: rounds(model, server, busy, batch, 0.0),
        "lockstep+1s": lambda: rounds(model, server, busy, batch, PAUSE_S),
        "model only": lambda: model_only(server, asked),
        "environments only": lambda: envs_only(busy, batch),
        "longest alone": lambda: ours(model, server, busy, batch),
    }
    with Cost() as cost:
        asyncio.run(runs[side]())
    return Row(
        side=side,
        episodes=len(batch),
        turns=sum(paced.script.turns for paced in batch),
        seconds=cost.seconds,
        model_idle=1 - server.busy.seconds / cost.seconds,
        world_idle=1 - busy.seconds / cost.seconds,
        cpu_s=cost.cpu_s,
        servers_cpu_s=cost.servers_cpu_s,
        memory_mib=cost.memory_mib,
    )


def requests(model: Model, batch: Sequence[Paced]) -> list[list[Request]]:
    """What ours asks the model in these episodes; also warms everything up."""
    model.forget()
    server = Metered(model.client, requests={})
    asyncio.run(ours(model, server, Busy(), batch))
    return list((server.requests or {}).values())


@contextmanager
def engine(config: Config, say: Callable[[str], None]) -> Iterator[Model]:
    """Ray, training workers, vLLM servers and a model, the tiny one without a path, as training starts them."""
    os.environ.update(variables(config.engine))
    warnings.filterwarnings("ignore", category=UserWarning, module="verl")
    import ray
    from verl.utils.tokenizer import hf_tokenizer

    from agentgym_rl.engine.verl.cluster import cluster
    from agentgym_rl.engine.verl.launch import launch
    from agentgym_rl.engine.verl.mapping import verl_config
    from agentgym_rl.rollout.builder import continuous_token_builder

    run = Resolved(config)
    with tempfile.TemporaryDirectory(prefix="rollout_") as name:
        if (path := config.model.path) is None:
            say("building the tiny model")
            texts = asyncio.run(tiny.corpus(run))
            path = str(tiny.build(Path(name) / "model", config.model, texts, config.seed))
        settings = verl_config(run, path, Path(name))
        tokenizer = hf_tokenizer(path)
        with cluster(settings, variables(config.engine), config.engine.ray_address):
            trainer = launch(settings, config.engine.start_seconds, say)
            servers = trainer.llm_server_manager.server_handles

            def forget() -> None:
                ray.get([server.clear_kv_cache.remote() for server in servers])

            builder = continuous_token_builder(path, tokenizer, {})
            yield Model(trainer.get_llm_client(), tokenizer, builder, forget, trainer)


def recipe(sequences: int) -> Config:
    """The tiny model and the engine of the smoke test, over all environments of the benchmark."""
    config = recipes.load(
        [
            "experiment=smoke", "algorithm=grpo", f"engine.max_sequences={sequences}", "engine.start_seconds=900",
            "model.prompt_tokens=1024", "model.response_tokens=4096",
        ]
    )  # fmt: skip
    config.envs = {name: EnvConfig() for name in ENVS}
    return config


@dataclass(frozen=True, slots=True)
class Cell:
    """A setting that every side plays in."""

    in_flight: int
    latency: str


def cells(in_flight: Sequence[int], latency: Sequence[str], at: int, every_pair: bool) -> list[Cell]:
    """The settings to measure, small ones first."""
    return [
        Cell(count, kind)
        for count in sorted(in_flight)
        for kind in latency
        if every_pair or kind == latency[-1] or count == at
    ]


Measurement = tuple[Cell, int, str]
"""Cell, repeat and side."""


def measurement(row: Mapping[str, Any]) -> Measurement:
    return Cell(row["in_flight"], row["latency"]), row["repeat"], row["side"]


def journal_of(file: Path) -> list[dict[str, Any]]:
    """The rows of a journal, from which a torn last line is cut off."""
    with file.open("r+b") as journal:
        journal.truncate(journal.read().rfind(b"\n") + 1)
    return [*read_jsonl(file)]


def plan(chosen: Sequence[Cell], repeats: int) -> list[Measurement]:
    """Every measurement; sides take turns.

    The model alone knows no latency and is measured once a repeat and number of episodes. The pause of lockstep is
    measured once a cell: what it adds hardly varies.
    """
    planned = []
    for cell in chosen:
        for repeat in range(repeats):
            planned += [(cell, repeat, side) for side in ("ours", "lockstep", "environments only", "longest alone")]
            alone = (Cell(cell.in_flight, NO_ENV), repeat, "model only")
            planned += [alone] if alone not in planned else []
            planned += [(cell, repeat, "lockstep+1s")] if repeat == 0 else []
    return planned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-flight", nargs="+", type=positive, default=[16, 64, 256, 1000], help="episodes at once")
    parser.add_argument("--latency", nargs="+", default=["0", "10", "100", "tail"], help="of environments: ms, or tail")
    parser.add_argument("--median", type=float, default=100.0, help="of the tail, in ms")
    parser.add_argument("--at", type=positive, default=256, help="episodes at once for every latency")
    parser.add_argument("--every-pair", action="store_true", help="of --in-flight and --latency")
    parser.add_argument("--repeats", type=positive, default=3)
    parser.add_argument("--sequences", type=positive, default=256, help="most sequences vLLM decodes at once")
    parser.add_argument("--profile", action="store_true", help="at last, tell in which packages ours spends its time")
    parser.add_argument("--journal", type=Path, help="file that keeps what was measured; go on from it")
    args = parser.parse_args()
    for kind in args.latency:
        if kind != "tail" and not kind.isdigit():
            parser.error(f"--latency {kind!r} is neither milliseconds nor tail")
    if len(args.latency) > 1 and args.at not in args.in_flight and not args.every_pair:
        parser.error(f"--at {args.at} is none of --in-flight: only the last --latency would be played")

    console = Console()
    console = console if console.width > 130 else Console(width=150)
    setting = {"median_ms": args.median, "sequences": args.sequences}
    chosen = cells(args.in_flight, args.latency, args.at, args.every_pair)
    planned = plan(chosen, args.repeats)
    written = journal_of(args.journal) if args.journal and args.journal.is_file() else []
    rows = [row for row in written if setting.items() <= row.items() and measurement(row) in planned]
    known = {measurement(row) for row in rows}
    remaining = [each for each in planned if each not in known]
    shown = None
    if remaining or args.profile:
        with Progress(console) as progress, engine(recipe(args.sequences), progress.say) as model:
            scripts = asyncio.run(record(SCRIPTS, lambda text: len(model.tokenizer.encode(text))))
            asked: dict[int, list[list[Request]]] = {}
            for number, (cell, repeat, side) in enumerate(remaining):
                progress.bar(f"{cell.in_flight} episodes, {cell.latency}: {side}", number, len(remaining))
                if cell.in_flight not in asked:
                    warm = episodes(scripts, cell.in_flight, "0", args.median, "0")
                    asked = {cell.in_flight: requests(model, warm)}
                latency = "0" if cell.latency == NO_ENV else cell.latency
                batch = episodes(scripts, cell.in_flight, latency, args.median, str(repeat))
                measured = play_side(side, model, batch, asked[cell.in_flight])
                rows.append({**asdict(cell), "repeat": repeat, **setting, **asdict(measured)})
                if args.journal:
                    with args.journal.open("a", encoding="utf-8") as file:
                        append_jsonl(file, rows[-1])
            if args.profile:
                progress.say(f"profile of {chosen[-1].in_flight} episodes")
                batch = episodes(scripts, chosen[-1].in_flight, "0", args.median, "0")
                spent = where.profile(lambda: asyncio.run(ours(model, Metered(model.client), Busy(), batch)))
                shown = where.table(spent, sum(paced.script.turns for paced in batch))
    if shown is not None:
        console.print(shown)
    show(console, rows, [(cell.in_flight, cell.latency) for cell in chosen], args.median)


if __name__ == "__main__":
    main()
