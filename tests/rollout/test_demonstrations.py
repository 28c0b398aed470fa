"""Demonstrations and other conversations as rollouts of a run."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import toy
from fake_server import FakeServer
from test_tokens import run as converse

pytest.importorskip("verl")

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.guided import without
from agentgym_rl.algorithms.losses.off_policy import SAMPLED
from agentgym_rl.algorithms.rows import PerToken, Row
from agentgym_rl.data import episode_store
from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.episode import prefaced
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run.demonstrations import Encoder
from agentgym_rl.engine.run.demonstrations import files as files_of
from agentgym_rl.envs import Task
from agentgym_rl.rollout.collect import collect
from agentgym_rl.rollout.conversation import ContextTooSmall
from agentgym_rl.rollout.prefix import Prefix, Replayed
from agentgym_rl.rollout.supervised import of_segment


@pytest.mark.parametrize("rules", [(), ("rollout.style=agentgym",), ("rollout.context=window", "rollout.keep_turns=1")])
def test_a_conversation_is_encoded_as_the_demonstration_that_it_is(tokenizer, builder, tmp_path, rules):
    """The same tokens, weights and turns from an episode of ``collect`` and from the file that it wrote of it."""
    model = ["model.prompt_tokens=4000", "model.response_tokens=2000", "rollout.max_new_tokens=200"]
    run = Resolved(recipes.load(["experiment=smoke", "+env=maze", *model, *rules]))
    files = {"file": tmp_path / "maze.json", "episodes": tmp_path / "maze.parquet"}
    asyncio.run(collect("maze", "train", files["file"], settings=run.rules, n=3, episodes=files["episodes"]))
    encoder, episodes = Encoder(run, tokenizer, builder), episode_store.read(files["episodes"])
    demonstrations = encoder.files({"maze": files["file"]})
    encoded = [encoder.conversation(episode.messages, Task.parse(episode.item_id)) for episode in episodes]
    assert encoded == demonstrations and len(encoded) == 3
    for rollout, episode in zip(demonstrations, episodes, strict=True):
        encoded_episode = rollout.episode
        assert (encoded_episode.env, encoded_episode.item_id, encoded_episode.messages) == (
            "maze",
            episode.item_id,
            episode.messages,
        )
        assert [(turn.response, turn.action, turn.invalid) for turn in encoded_episode.turns] == [
            (turn.response, turn.action, turn.invalid) for turn in episode.turns
        ]
        assert [turn.observation for turn in encoded_episode.turns[:-1]] == [
            turn.observation for turn in episode.turns[:-1]
        ]
        for number, segment in enumerate(rollout.segments):
            spans = [turn.tokens for turn in encoded_episode.turns if turn.segment == number]
            learned = [tokenizer.decode(segment.input_ids[segment.prompt :][slice(*span)]) for span in spans]
            responses = [f"{turn.response}<|im_end|>" for turn in encoded_episode.turns if turn.segment == number]
            assert learned == responses
            assert sum(segment.loss_weight) == sum(end - begin for begin, end in spans)


def test_general_conversations_are_encoded_without_an_environment(tokenizer, builder, tmp_path):
    run, file = Resolved(recipes.load(["experiment=smoke"])), tmp_path / "talk.json"
    responses = ["up", "down"]
    first = [{"from": "human", "value": "one"}, {"from": "gpt", "value": responses[0]}]
    again = [{"from": "human", "value": "open"}, {"from": "gpt", "value": responses[1]}]
    file.write_text(json.dumps([{"item_id": "talk_1", "conversations": [*first, *again]}]))
    (rollout,) = Encoder(run, tokenizer, builder).general(str(file))
    (segment,) = rollout.segments
    learned = [token for token, weight in zip(segment.input_ids, segment.loss_weight, strict=True) if weight]
    assert tokenizer.decode(learned) == "".join(f"{text}<|im_end|>" for text in responses)
    assert Encoder(run, tokenizer, builder).general(None) == []
    file.write_text("[]")
    with pytest.raises(ValueError, match=r"cloning\.mix_file .* has no conversation"):
        Encoder(run, tokenizer, builder).general(str(file))
    missing = Resolved(recipes.load(["experiment=smoke", "cloning.mix_file=nowhere.json"]))
    with pytest.raises(FileNotFoundError, match=r"cloning\.mix_file nowhere\.json does not exist"):
        files_of(missing, tmp_path)


def test_a_conversation_that_is_none_is_refused(tokenizer, builder):
    run = Resolved(recipes.load(["experiment=smoke", "+env=maze"]))
    encoder, task = Encoder(run, tokenizer, builder), Task("maze", 26)
    opening = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "goal one down open down"}]
    with pytest.raises(ValueError, match="maze_26 has no response to train on"):
        encoder.conversation(opening, task)
    with pytest.raises(ValueError, match="take turns"):
        encoder.conversation([*opening, opening[1], {"role": "assistant", "content": "up"}], task)
    long = Trajectory.of("maze_26", [*opening, {"role": "assistant", "content": "up " * 9000}], 2)
    with pytest.raises(ContextTooSmall, match=r"more than model\.prompt_tokens"):
        encoder.trajectory("maze", long)


def test_a_row_without_lessons_has_the_tokens_of_a_conversation_without_them(tokenizer, builder):
    run, task, lessons = Resolved(recipes.load(["experiment=smoke", "+env=maze"])), Task("maze", 26), "Go down first."
    turns = [("goal two down open down", "Action: move down"), ("goal one down open up down", "Action: move down")]

    def encoded(*before):
        messages = [{"role": "system", "content": "Rules."}]
        for number, (seen, response) in enumerate(turns):
            shown = prefaced(*before, seen) if not number else seen
            messages += [{"role": "user", "content": shown}, {"role": "assistant", "content": response}]
        return Encoder(run, tokenizer, builder).conversation(messages, task)

    with_lessons, bare = encoded(lessons, "Now."), encoded("Now.")
    (segment,), (expected,) = with_lessons.segments, bare.segments
    sampled = PerToken(-float(at) for at in range(len(segment.input_ids)))
    row = Row(segment, {SAMPLED: sampled}, with_lessons.episode)
    stripped = without(SimpleNamespace(encode=Encoder(run, tokenizer, builder).conversation), row, lessons)
    assert stripped.segment == expected and len(segment.input_ids) > len(expected.input_ids)
    assert stripped.of_tokens(SAMPLED)[expected.prompt :] == sampled[segment.prompt :]


def test_the_example_of_next_states_learns_the_observation_and_what_the_template_puts_around_it(
    tokenizer, builder, monkeypatch
):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples" / "add_an_algorithm")
    from my_algorithms.next_state import observed

    says = [[*tokenizer.encode(f"Action: say {number}"), tokenizer.eos_token_id] for number in (2, 3)]
    prefix = Prefix(responses=[Replayed(text="Action: say 1")], avoid=["say 1"])
    episode, conversation = converse(FakeServer(says), tokenizer, builder, toy.Counter, prefix=prefix)
    row = observed(Rollout(episode=episode, segments=[of_segment(segment) for segment in conversation.segments]))
    learned = [
        token for token, weight in zip(row.segment.input_ids, row.streams["cross_entropy"], strict=True) if weight
    ]
    text = tokenizer.decode(learned)
    assert text == f"\n<|im_start|>user\n{episode.turns[1].observation}<|im_end|>\n<|im_start|>assistant\n"
