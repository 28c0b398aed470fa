"""An episode as a model with tokens leaves it."""

from agentgym_rl.data.episode import Ending, Episode, Turn


def episode(number, turns=2):
    return Episode(
        env="counter", item_id=f"counter_{number}", ending=Ending.TERMINATED if turns else Ending.ENV_ERROR,
        reward=1.0, success=bool(turns), max_turns=5, began=1.5e9 + number / 7 if turns else 0.0,
        turns=[
            Turn(response="Action: say 1", action="say 1", observation="Right.", reward=0.5, invalid=False,
                 log_prob=-0.5, pieces=["Action", ": say", " 1"], log_probs=[-0.25, -0.125, -0.125])
            for _ in range(turns)
        ],
    )  # fmt: skip
