"""What the gateway costs: the same episodes through it and by the direct rollout, both sides in one run, in turns.

Episodes are those of TextCraft, BabyAI and Maze as their oracles play them: their texts and turns.
The model waits as one does that decodes ``--token-ms`` a token, the same for both sides, and answers with any tokens,
``--tokens`` a reply; environments answer at once. So what a side takes longer is its own work on the way of each turn.

direct   ``run_episode`` and ``TokenConversation``, as a run rolls out
gateway  a process of its own holds the harnesses, each with a connection: it sends the whole conversation each turn,
         and the gateway keeps tokens in this process

Turns are counted for as long as all sessions are at work: until one finds no further episode. The CPU time is that of
this process.

    python benchmarks/gateway.py                                 # 64 sessions, seven minutes
    python benchmarks/gateway.py --sessions 16 --token-ms 5 --repeats 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any
from uuid import uuid4

from load import Busy
from options import positive
from paced import PacedEnv, Script, record, understand
from rich.console import Console

from agentgym_rl.data.episode import Ending
from agentgym_rl.engine.recipe.config import TinyModelConfig
from agentgym_rl.engine.run import tiny
from agentgym_rl.rollout.gateway.server import Gateway
from agentgym_rl.rollout.gateway.session import Limits, Session
from agentgym_rl.rollout.gateway.tokens import TokenChat
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.tokens import TokenConversation

SETTINGS = RolloutSettings(style="compact", retries=0)
LIMITS = {"prompt_limit": 4096, "response_limit": 32768}
PREFILL_S = 0.03
"""Seconds until the first token."""


@dataclass(frozen=True, slots=True)
class Output:
    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str = "completed"
    extra_fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Decoder:
    """A model that takes its time: any tokens, as many as asked for."""

    token: int
    end: int
    seconds: float
    """For a token."""
    turns: int = 0

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> Output:
        count = sampling_params["max_tokens"]
        await asyncio.sleep(PREFILL_S + count * self.seconds)
        self.turns += 1
        return Output([self.token] * (count - 1) + [self.end], [-1.0] * count)


@dataclass(frozen=True, slots=True)
class Bench:
    """What both sides share."""

    tokenizer: Any
    builder: Any
    scripts: Sequence[Script]
    """The episodes; a session takes the next one when it has ended its last."""
    sessions: int
    token_s: float
    tokens: int
    """Of a reply."""

    def decoder(self) -> Decoder:
        (token,) = self.tokenizer.encode("a")
        return Decoder(token, self.tokenizer.eos_token_id, self.token_s)

    def model(self, server: Decoder) -> dict[str, Any]:
        parts = {"server": server, "tokenizer": self.tokenizer, "builder": self.builder, "sampling": {}}
        return parts | LIMITS | {"request_id": uuid4().hex}


@dataclass(frozen=True, slots=True)
class Measured:
    """One side's turns while all sessions were at work."""

    seconds: float
    turns: int

    @property
    def rate(self) -> float:
        """Turns a second."""
        return self.turns / self.seconds


async def direct(bench: Bench, server: Decoder) -> Measured:
    """The rollout."""
    waiting, measured = list(bench.scripts), list[Measured]()
    rules = replace(SETTINGS, max_new_tokens=bench.tokens)

    async def play(script: Script) -> None:
        episode, _ = await run_episode(
            lambda: PacedEnv(script, [0.0] * (script.turns + 1), Busy()), script.task,
            lambda: TokenConversation(**bench.model(server), settings=rules), rules, script.turns, understand,
        )  # fmt: skip
        if episode.ending is not Ending.TERMINATED:
            raise RuntimeError(f"{episode.item_id} ended with {episode.ending}: {episode.error}")

    async def worker() -> None:
        while waiting:
            await play(waiting.pop(0))
        measured.append(Measured(perf_counter() - begun, server.turns))

    begun = perf_counter()
    await asyncio.gather(*(worker() for _ in range(bench.sessions)))
    return measured[0]


async def gateway(bench: Bench, server: Decoder) -> Measured:
    """The same through the gateway."""
    opened = list[Session]()
    async with Gateway() as running:
        work = {
            "sessions": bench.sessions,
            "episodes": [_told(bench, running, server, script, opened) for script in bench.scripts],
        }
        harnesses = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--harnesses", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            limit=1 << 26,
        )  # fmt: skip
        assert harnesses.stdin is not None and harnesses.stdout is not None
        harnesses.stdin.write(json.dumps(work).encode() + b"\n")
        await harnesses.stdout.readline()  # they are ready
        begun = perf_counter()
        harnesses.stdin.write(b"go\n")
        await harnesses.stdout.readline()  # one has nothing left to do
        measured = Measured(perf_counter() - begun, server.turns)
        if await harnesses.wait():
            raise RuntimeError("the harnesses failed")
        for session in opened:
            assert len(session.chat.segments) == 1, "nothing was edited, so that nothing forks"
            running.close(session)
    return measured


def _told(bench: Bench, running: Gateway, server: Decoder, script: Script, opened: list[Session]) -> dict[str, Any]:
    chat = TokenChat(**bench.model(server))
    session = running.open(chat, Limits(max_turns=script.turns, max_new_tokens=bench.tokens))
    opened.append(session)
    return {"url": running.address(session, with_key=True), "opening": script.opening, "said": script.observations}


async def harnesses() -> None:
    """The harnesses of all sessions; they do no more than send and read."""
    import aiohttp

    work = json.loads(await asyncio.to_thread(sys.stdin.readline))

    waiting, idle = work["episodes"], asyncio.Event()

    async def worker() -> None:
        async with aiohttp.ClientSession() as client:
            while waiting:
                episode = waiting.pop(0)
                messages = list(episode["opening"])
                for observation in episode["said"]:
                    url = f"{episode['url']}/v1/chat/completions"
                    async with client.post(url, json={"model": "policy", "messages": messages}) as answer:
                        reply = (await answer.json())["choices"][0]["message"]
                    messages += [reply, {"role": "user", "content": observation}]
        if not idle.is_set():
            idle.set()
            print("idle", flush=True)

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.gather(*(worker() for _ in range(work["sessions"])))


def bench_of(folder: Path, sessions: int, rounds: int, token_ms: float, tokens: int) -> Bench:
    from transformers import AutoTokenizer
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    from agentgym_rl.rollout.builder import faithful

    drawn = asyncio.run(record(40, len))
    texts = [
        text for script in drawn for text in (*script.observations, *(message["content"] for message in script.opening))
    ]
    tokenizer = AutoTokenizer.from_pretrained(tiny.build(folder / "model", TinyModelConfig(), texts, seed=0))
    builder = faithful(create_continuous_token_builder(tokenizer, hf_model_type="qwen2", chat_template_kwargs={}))
    chosen = [drawn[at % len(drawn)] for at in range(sessions * rounds)]
    return Bench(tokenizer, builder, chosen, sessions, token_ms / 1000, tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=positive, default=64, help="at once")
    parser.add_argument("--rounds", type=positive, default=4, help="episodes for each of them; at least 2")
    parser.add_argument("--token-ms", type=float, default=20.0, help="of the model, for a token of a reply")
    parser.add_argument("--tokens", type=positive, default=60, help="of a reply")
    parser.add_argument("--repeats", type=positive, default=4)
    parser.add_argument("--harnesses", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.harnesses:
        asyncio.run(harnesses())
        return
    if args.rounds < 2:
        parser.error("--rounds: a session needs two episodes or more")
    console, ratios = Console(width=150), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        bench = bench_of(Path(folder), args.sessions, args.rounds, args.token_ms, args.tokens)
        for repeat in range(args.repeats):
            rates = [_measured(console, f"{repeat + 1}. {side.__name__:8}", bench, side) for side in (direct, gateway)]
            ratios.append(rates[1] / rates[0])
    console.print(
        f"{args.sessions} sessions, {args.tokens} tokens a reply at {args.token_ms:g} ms: the gateway's throughput "
        f"is {100 * median(ratios):.1f}% of the direct rollout's (median of {args.repeats}, from "
        f"{100 * min(ratios):.1f}% to {100 * max(ratios):.1f}%)"
    )


def _measured(
    console: Console, name: str, bench: Bench, side: Callable[[Bench, Decoder], Awaitable[Measured]]
) -> float:
    """Turns a second of one side."""
    server, before = bench.decoder(), process_time()
    measured = asyncio.run(side(bench, server))
    cpu_ms = 1000 * (process_time() - before) / server.turns
    console.print(
        f"{name} {measured.turns} turns in {measured.seconds:.1f} s: {measured.rate:.1f} a second, {cpu_ms:.2f} ms of "
        "CPU each"
    )
    return measured.rate


if __name__ == "__main__":
    main()
