"""``agentgym-rl gateway``."""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from agentgym_rl.cli import common
from agentgym_rl.cli.policy import Backend, rules_for
from agentgym_rl.envs.extras import needs


def command(
    policy: Annotated[str, typer.Argument(help="The model, as for `eval`: a run, a folder, openai:<model>@<url>.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8001,
    key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable with the key; left out, one is made.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the episodes, a file each, for `view`.")] = None,
    max_turns: common.MaxTurns = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a reply.")] = 512,
    session_ttl: Annotated[float, typer.Option(min=0, help="Seconds until an unused session closes.")] = 1800,
    max_sessions: Annotated[int, typer.Option(help="Open sessions.")] = 4096,
    temperature: common.Temperature = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of sampling.")] = 0,
    backend: Backend = "auto",
) -> None:
    """Serve a model to agents that you start yourself, until Ctrl-C. A run has a gateway of its own."""
    with needs("gateway", "serve"):
        from agentgym_rl.rollout.gateway.server import Gateway
    from agentgym_rl.api.policies import open_policy
    from agentgym_rl.data import episode_store
    from agentgym_rl.rollout.gateway.session import Limits, Sessions
    from agentgym_rl.rollout.gateway.texts import chat_of
    from agentgym_rl.rollout.harness.service import Service
    from agentgym_rl.rollout.seeds import seed_of

    if out is not None:
        if out.is_file():
            raise ValueError(f"--out {out} is a file; name a folder")
        episode_store.check(out / "session.parquet")
    key = secrets.token_urlsafe(24) if key_env is None else _key(key_env)
    limits, sessions = Limits(max_turns=max_turns, max_new_tokens=max_new_tokens), Sessions(max_sessions, session_ttl)
    rules = rules_for(policy)
    model = open_policy(policy, rules, backend=backend, temperature=temperature, seed=seed)
    chat_of(model, seed)  # refuses a policy that is no model
    thinking = rules.settings.thinking
    service = Service(lambda number: chat_of(model, seed_of(seed, number), thinking), key, limits, out, sessions)

    async def serve() -> None:
        try:
            async with Gateway(host, port, sessions, service.open) as gateway:
                note = f"; its key is {key}" if key_env is None else ""
                typer.secho(f"{policy} at {gateway.url}{note}; POST /sessions opens one. Ctrl-C stops.", err=True)
                await gateway.ended()
        finally:
            try:
                await service.close()
            finally:
                await model.close()

    with suppress(KeyboardInterrupt):
        asyncio.run(serve())


def _key(name: str) -> str:
    if not (key := os.environ.get(name, "").strip()):
        raise ValueError(f"--key-env: the variable {name} is not set")
    return key
