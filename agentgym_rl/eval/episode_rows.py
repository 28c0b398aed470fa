"""Episodes as rows of a table that stays small."""

from collections.abc import Sequence

from agentgym_rl.data.episode import Episode

COLUMNS = ("item", "env", "decoding", "success", "reward", "turns", "ending", "step", "conversation")
ROWS = 50
"""Most episodes of a decoding."""
LINES, CHARACTERS = 12, 1500
"""Most of a conversation that is kept, from its end."""

Row = tuple[str, str, str, bool | None, float | None, int, str, int, str]
"""Success and reward are None where the ending does not count."""


def episode_rows(episodes: Sequence[Episode]) -> list[Row]:
    """The first episodes of each decoding by item id, so that every evaluation shows the same tasks."""
    chosen: list[Episode] = []
    for decoding in sorted({_decoding(episode) for episode in episodes}):
        of_decoding = [episode for episode in episodes if _decoding(episode) == decoding]
        chosen += sorted(of_decoding, key=lambda episode: (len(episode.item_id), episode.item_id))[:ROWS]
    return [
        (
            record.item_id, record.env, _decoding(record),
            *((record.success, record.reward) if record.ending.counts else (None, None)),
            len(record.turns), record.ending.value, record.model_step, conversation_end(record),
        )
        for record in chosen
    ]  # fmt: skip


def conversation_end(episode: Episode) -> str:
    """The last lines of the conversation, with the observation that ended it."""
    lines = [f"{message['role']}: {message['content']}" for message in episode.messages]
    if episode.turns and episode.messages and episode.messages[-1]["role"] == "assistant":
        lines.append(f"user: {episode.turns[-1].observation}")
    text = "\n".join(lines)
    end = "\n".join(text.splitlines()[-LINES:])[-CHARACTERS:]
    return end if end == text else f"… {end}"


def _decoding(episode: Episode) -> str:
    return str(episode.tags.get("decoding", ""))
