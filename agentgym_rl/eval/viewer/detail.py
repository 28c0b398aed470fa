"""One episode as the page shows it."""

import json
import math
from collections.abc import Sequence
from typing import Any

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs.core import EnvError
from agentgym_rl.envs.picture import Picture, Transcript
from agentgym_rl.envs.registry import env_class
from agentgym_rl.eval.viewer.parts import parts

OF_TURN = (
    "notes", "action", "reward", "invalid", "fault", "log_prob", "calls", "finish_reason", "began_s",
    "model_s", "parse_s", "env_s",
)  # fmt: skip
"""What the page shows as it is in a turn."""
OF_EPISODE = (
    "env", "item_id", "reward", "success", "max_turns", "seed", "prompt_tokens", "response_tokens", "began", "reset_s",
    "attempts", "error",
)  # fmt: skip
"""What the page shows as it is in an episode."""


def detail(episode: Episode, pictures: bool = True) -> dict[str, Any]:
    """Plain JSON types.

    ``opening`` are the messages before the first response; each turn has its ``parts`` (:func:`.parts.parts`), its
    ``advantage`` where that is known, the ``observation_tokens`` that followed it, and whether its observation was
    ``shown`` to the model. What was shown is the message that the model read, which some wordings make a whole prompt.
    ``pictures`` holds each distinct picture once; ``picture``, of the episode's start and of each turn, is a place in
    it or None; ``undrawn`` says why there are none where the environment cannot run here.
    """
    start = episode.start if episode.messages else 0
    drawn: Sequence[Picture | None] = ()
    undrawn = None
    try:
        drawn = draw(episode) if pictures else ()
    except EnvError as error:
        undrawn = str(error)
    distinct, places = _distinct(drawn or [None] * (len(episode.turns) + 1))
    turns = []
    for number, turn in enumerate(episode.turns):
        following = episode.turns[number + 1] if number + 1 < len(episode.turns) else turn
        after = following.tokens[0] if following.segment == turn.segment else turn.tokens[1]
        shown = episode.messages[start + 2 * number + 1 :][:1]
        turns.append(
            {name: getattr(turn, name) for name in OF_TURN}
            | {
                "observation": shown[0]["content"] if shown else turn.observation,
                "parts": parts(turn),
                "advantage": episode.advantages[number] if episode.advantages else None,
                "shown": bool(shown),
                "tokens": turn.tokens[1] - turn.tokens[0],
                "observation_tokens": max(0, after - turn.tokens[1]),
                "picture": places[number + 1],
            }
        )
    content = {name: getattr(episode, name) for name in OF_EPISODE} | {
        "ending": episode.ending.value,
        "counts": episode.ending.counts,
        **({} if episode.ending.counts else {"success": None, "reward": None}),
        "step": episode.model_step,
        "tags": {str(key): value for key, value in episode.tags.items()},
        "opening": episode.messages[:start],
        "turns": turns,
        "pictures": [picture.to_dict() for picture in distinct],
        "picture": places[0],
        "undrawn": undrawn,
    }
    finite: dict[str, Any] = _finite(content)
    return finite


def encode(value: Any) -> str:
    """JSON of ASCII characters only, which is JavaScript, too."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def draw(episode: Episode) -> Sequence[Picture | None]:
    """The pictures that the episode's environment makes; none where it draws nothing or is not installed."""
    if not episode.messages:
        return ()
    try:
        env = env_class(episode.env)
    except EnvError:
        return ()
    turns = tuple((turn.action, turn.observation) for turn in episode.turns)
    return env.pictures(Transcript(episode.item_id, episode.without_preface[episode.start - 1]["content"], turns))


def _distinct(drawn: Sequence[Picture | None]) -> tuple[list[Picture], list[int | None]]:
    numbers: dict[Picture, int] = {}
    places = [None if picture is None else numbers.setdefault(picture, len(numbers)) for picture in drawn]
    return list(numbers), places


def _finite(value: Any) -> Any:
    """The same with None for numbers that JSON has no words for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return value
