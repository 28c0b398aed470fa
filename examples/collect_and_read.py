"""Collect expert trajectories of TextCraft and read one: what behaviour cloning learns from.

python examples/collect_and_read.py
"""

import asyncio
import tempfile
from pathlib import Path

from agentgym_rl.data import agenttraj
from agentgym_rl.rollout.collect import collect


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "textcraft.json"
        summary = asyncio.run(collect("textcraft", "train", file, policy="oracle", n=5, seed=0, style="compact"))
        trajectories = agenttraj.read(file)
    print(f"{summary.succeeded} of {summary.attempted} tasks solved, panel {summary.digest}\n")
    for message, loss in zip(trajectories[0].messages, trajectories[0].loss, strict=True):
        learnt = " (learnt)" if loss else ""
        print(f"--- {message['role']}{learnt}\n{message['content']}")


if __name__ == "__main__":
    main()
