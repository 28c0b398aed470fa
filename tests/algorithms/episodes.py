"""Episodes made by hand."""

from agentgym_rl.data.episode import Ending, Episode, Turn


def rewarded(*rewards):
    """Episodes with these rewards."""
    return [
        Episode(env="e", item_id="e_1", ending=Ending.TERMINATED, reward=reward, success=reward == 1, max_turns=9)
        for reward in rewards
    ]


def visiting(observations, rewards, actions=None, success=False):
    """``observations[t]`` is what turn t answers; an instruction and a canned reply stand before the first."""
    messages = [{"role": "user", "content": "rules"}, {"role": "assistant", "content": "OK."}]
    for observation in observations:
        messages += [{"role": "user", "content": observation}, {"role": "assistant", "content": "do"}]
    led_to = [*observations[1:], "later"]
    turns = [
        Turn(response="do", action=action, observation=observation, reward=reward, invalid=False)
        for observation, reward, action in zip(led_to, rewards, actions or ["do"] * len(rewards), strict=False)
    ]
    return Episode(
        env="e", item_id="e_1", ending=Ending.TERMINATED, reward=sum(rewards), success=success, max_turns=9,
        messages=messages, turns=turns,
    )  # fmt: skip
