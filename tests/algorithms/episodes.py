"""Episodes made by hand."""

from agentgym_rl.data.episode import Ending, Episode


def rewarded(*rewards):
    """Episodes with these rewards."""
    return [
        Episode(env="e", item_id="e_1", ending=Ending.TERMINATED, reward=reward, success=reward == 1, max_turns=9)
        for reward in rewards
    ]
