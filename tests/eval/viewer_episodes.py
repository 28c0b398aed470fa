"""Episodes that the viewer's tests show."""

import asyncio
from copy import deepcopy
from functools import cache

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.envs import Task, make
from agentgym_rl.rollout.policies import Oracle
from agentgym_rl.rollout.settings import RolloutSettings

HOSTILE = (
    '<script>window.hacked = 1</script></script><img src=x onerror="window.hacked=1"> \' " & javascript:alert(1) '
    "\u202egnp.exe\u202c \x1b[31mred\x1b[0m nul\x00 \u2028 {{x}} \ud800 http://example.com/ \U000e0041\u3164"
)


def made(number=0, env="counter", ending=Ending.TERMINATED, success=True, step=0, turns=2, text="one", **fields):
    """An episode with tokens and times."""
    all_turns = [
        Turn(
            response=f"Thought:\nbecause {text}\n\nAction:\nsay {place}", action=f"say {place}", observation=text,
            reward=float(success and place == turns - 1), invalid=place == 0 and turns > 1,
            tokens=(20 * place, 20 * place + 6), log_prob=-2.5,
            pieces=["Thought:", "\nbecause ", text, "\n\nAction:", f"\nsay {place}", "<|im_end|>"],
            log_probs=[-0.01, -0.2, -0.5, -1.0, -2.0, -4.0],
            began_s=0.5 + place, model_s=0.3, parse_s=0.01, env_s=0.1,
        )
        for place in range(turns)
    ]  # fmt: skip
    messages = [{"role": "system", "content": f"Rules: {text}"}, {"role": "user", "content": f"Start: {text}"}]
    for turn in all_turns:
        messages += [{"role": "assistant", "content": turn.response}, {"role": "user", "content": turn.observation}]
    everything = {
        "env": env, "item_id": f"{env}_{number}", "ending": ending, "reward": float(success), "success": success,
        "max_turns": 5, "model_step": step, "messages": messages[:-1] if all_turns else messages, "turns": all_turns,
        "prompt_tokens": 30, "response_tokens": 20 * turns - 14 if turns else 0, "began": 1.7e9, "reset_s": 0.2,
        "tags": {"split": "train"}, "advantages": [0.5 - place for place in range(turns)],
    }  # fmt: skip
    return Episode(**(everything | fields))


@cache
def _played(env, index, style):
    return asyncio.run(Oracle().run(make(env, style=style), Task(env, index), RolloutSettings(style=style)))


def played(env, index, style="compact", **fields):
    """An episode of the oracle."""
    episode = deepcopy(_played(env, index, style))
    for name, value in fields.items():
        setattr(episode, name, value)
    return episode


def run_folder(folder, steps=(0, 10, 20), tasks=4):
    """A run: each step plays the same tasks; later ones solve more. Then an evaluation."""
    for number, step in enumerate(steps):
        episodes = [made(task, step=step, success=task <= number, turns=1 + task) for task in range(tasks)]
        episodes.append(made(9, step=step, ending=Ending.ENV_ERROR, success=False, turns=0, error="the server is gone"))
        episode_store.write(folder / "episodes" / f"step{step:06d}.parquet", episodes)
    panel = {"panel": "unseen", "decoding": "greedy"}
    hostile = made(7, env="hostile", text=HOSTILE, step=20, tags=panel | {"note": HOSTILE})
    evaluated = [played("textcraft", 3, tags=panel), played("babyai", 1, tags=panel), hostile]
    episode_store.write(folder / "episodes" / "val_test_step000020.parquet", evaluated)
    return folder
