"""Whether an environment here and on AgentGym's own server are the same text, step by step.

Random walks of at most 12 actions, or the oracle's solutions, are taken here and repeated there. The server of AgentGym
has to run already.

    python benchmarks/agentgym_texts.py babyai http://127.0.0.1:36001 -o wording=agentgym-exact
    python benchmarks/agentgym_texts.py maze http://127.0.0.1:36002 --tasks 0:25 --oracle

``--record FILE`` writes a digest of what the server said in each walk; tests compare with it where there is no server.
It ends with status 1 where a text or a reward differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym_rl.cli.common import env_options
from agentgym_rl.data.files import write_text
from agentgym_rl.envs import Task, TextEnv, make
from agentgym_rl.envs.hosts.remote import RemoteEnv
from agentgym_rl.envs.probe import Walk, follow, solution, walk, wander
from agentgym_rl.envs.splits import fingerprint

ENDED = "(the episode had ended before)"
"""Stands for what the server says of actions after the end."""


@dataclass
class Agreement:
    """What was compared."""

    texts: int = 0
    equal: int = 0
    rewards: int = 0
    """Steps with the same reward."""
    steps: int = 0
    there: dict[str, str] = field(default_factory=dict)
    """By item id, a digest of the server's texts."""
    first: str = ""
    """The first difference."""

    def add(self, ours: Walk, theirs: list[str], rewards: list[float]) -> None:
        here = [ours.first.text, *(step.observation.text for step in ours.steps)]
        there = theirs + [ENDED] * (len(here) - len(theirs))
        self.texts += len(here)
        self.equal += sum(mine == other for mine, other in zip(here, there, strict=True))
        self.steps += len(ours.steps)
        self.rewards += sum(abs(step.reward - other) < 1e-6 for step, other in zip(ours.steps, rewards, strict=False))
        self.there[str(ours.task)] = fingerprint(json.dumps([ours.actions, theirs]), 12)
        different = [place for place, other in enumerate(there) if here[place] != other]
        if different and not self.first:
            place = different[0]
            action = repr(ours.actions[place - 1]) if place else "the reset"
            self.first = f"{ours.task} after {action}\n--- there\n{there[place]}\n--- here\n{here[place]}"


async def compare(
    name: str, address: str, options: Mapping[str, Any], indices: range, oracle: bool = False
) -> Agreement:
    """Walk here, repeat there."""
    here, there = make(name, **options), RemoteEnv(name, address, **options)
    agreement = Agreement()
    try:
        for task in (Task(name, index) for index in indices):
            ours = await walk(here, task, follow(solution(here, task) or []) if oracle else wander(task))
            agreement.add(ours, *await repeat(there, ours))
    finally:
        await there.close()
        await here.close()
    return agreement


async def repeat(there: TextEnv, ours: Walk) -> tuple[list[str], list[float]]:
    """Texts and rewards of the same actions, as long as the server goes on."""
    texts, rewards = [(await there.reset(ours.task)).text], []
    for action in ours.actions:
        step = await there.step(action)
        texts.append(step.observation.text)
        rewards.append(step.reward)
        if step.done:
            break
    return texts, rewards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("address", help="of AgentGym's server")
    parser.add_argument("-o", dest="options", action="append", metavar="KEY=VALUE", help="option of the environment")
    parser.add_argument("--tasks", default="0:120", metavar="FIRST:STOP")
    parser.add_argument("--oracle", action="store_true", help="take the oracle's actions instead of random ones")
    parser.add_argument("--record", metavar="FILE")
    args = parser.parse_args()
    options = env_options(args.env, args.options)
    if not (indices := range(*map(int, args.tasks.split(":")))):
        parser.error(f"--tasks {args.tasks} holds no task")
    agreement = asyncio.run(compare(args.env, args.address, options, indices, args.oracle))
    print(
        f"{args.env}: {agreement.equal} of {agreement.texts} texts and {agreement.rewards} of {agreement.steps} "
        "rewards are the same"
    )
    if agreement.first:
        print(f"first difference: {agreement.first}")
    if args.record:
        write_text(args.record, json.dumps(agreement.there, indent=0) + "\n")
    raise SystemExit(agreement.equal < agreement.texts or agreement.rewards < agreement.steps)


if __name__ == "__main__":
    main()
