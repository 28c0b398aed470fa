"""Collect demonstrations of TextCraft, which behaviour cloning trains on, and read one.

python examples/collect_and_read.py
"""

import asyncio
import tempfile
from pathlib import Path

from agentgym_rl.data import agenttraj
from agentgym_rl.rollout.collect import collect
from agentgym_rl.rollout.policies import Oracle
from agentgym_rl.rollout.settings import RolloutSettings


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "textcraft.json"
        summary = asyncio.run(collect("textcraft", "train", file, Oracle(), RolloutSettings(style="compact"), n=5))
        trajectories = agenttraj.read(file)
    print(f"{summary.succeeded} of {summary.attempted} tasks solved, panel {summary.digest}\n")
    for message, loss in zip(trajectories[0].messages, trajectories[0].loss, strict=True):
        trained = " (trained on)" if loss else ""
        print(f"--- {message['role']}{trained}\n{message['content']}")


if __name__ == "__main__":
    main()
