"""Evaluate a model behind an OpenAI-compatible API on a panel of tasks.

    vllm serve Qwen/Qwen2.5-7B-Instruct                # or any other server; a key is read from OPENAI_API_KEY
    python examples/api_model.py openai:Qwen/Qwen2.5-7B-Instruct@http://localhost:8000/v1 textcraft --n 20

Episodes are kept in ``--out`` as AgentTraj JSON. Interrupted, the same command goes on where it stopped. In the shell:

    agentgym-rl collect textcraft --split test --n 20 --temperature 0 --keep all --out episodes.json --policy openai:...
    agentgym-rl eval panel=textcraft:test:20 policy=openai:...
"""

import argparse
import asyncio
from pathlib import Path

from agentgym_rl.eval.intervals import wilson
from agentgym_rl.rollout.collect import collect
from agentgym_rl.rollout.policies.api import ChatModel


def main() -> None:
    parser = argparse.ArgumentParser(description="Success of an API model on test tasks of an environment.")
    parser.add_argument("model", help="openai:<model>@<url>")
    parser.add_argument("env", help="an environment; `agentgym-rl envs` lists them")
    parser.add_argument("--n", type=int, default=20, help="tasks")
    parser.add_argument("--concurrency", type=int, default=8, help="episodes that run at the same time")
    parser.add_argument("--out", type=Path, default=Path("episodes.json"), help="AgentTraj JSON to write")
    given = parser.parse_args()

    model = ChatModel(given.model, temperature=0.0)
    summary = asyncio.run(
        collect(given.env, "test", given.out, model, n=given.n, keep="all", concurrency=given.concurrency)
    )
    low, high = wilson(summary.succeeded, summary.attempted)
    print(f"panel    {given.env} test, {given.n} tasks, digest {summary.digest}")
    print(f"success  {summary.succeeded}/{summary.attempted}, 95% interval {low:.1%} to {high:.1%}")
    print(f"endings  {', '.join(f'{number} {ending}' for ending, number in summary.endings.items())}")
    print(f"turns    {summary.mean_turns:.1f} on average")
    print(f"tokens   {model.usage.prompt_tokens} read, {model.usage.completion_tokens} written")


if __name__ == "__main__":
    main()
