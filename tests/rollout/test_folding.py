"""Conversations that outgrow the context: every sample stays within it, and nothing that was sampled is lost."""

import asyncio

import encoded
import pytest
import toy
from fake_server import FakeServer
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept
from test_tokens import TASK, Talking

from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import Task
from agentgym_rl.envs.formats import reader
from agentgym_rl.rollout.folding import ASK, Exchange, folded, plain_notes
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import of_segment
from agentgym_rl.rollout.tokens import TokenConversation

SAID = [f"Room {number}. You see {'a lamp and ' * (number % 3)}a door." for number in range(101)]


def run(server, tokenizer, builder, observations, prompt_limit=200, response_limit=240, **rules):
    rules = RolloutSettings(style="compact", retries=0, max_new_tokens=12, **rules)
    return asyncio.run(
        run_episode(
            lambda: Talking(observations, "compact"),
            TASK,
            lambda: TokenConversation(
                server=server, tokenizer=tokenizer, builder=builder, sampling={}, prompt_limit=prompt_limit,
                response_limit=response_limit, settings=rules,
            ),
            rules,
            max_turns=200,
        )
    )  # fmt: skip


@pytest.mark.parametrize("context", ["fold", "summary"])
def test_a_hundred_turns_in_a_small_context(tokenizer, builder, context):
    reply = [*tokenizer.encode("go on"), tokenizer.eos_token_id]
    server = FakeServer([reply])
    episode, conversation = run(server, tokenizer, builder, SAID, context=context, notes_tokens=16)
    assert (episode.ending, len(episode.turns)) == (Ending.TERMINATED, 100)
    assert episode.segments == len(conversation.segments) > 5
    sampled = 0
    for segment in conversation.segments:
        assert len(segment.prompt_ids) <= 200 and len(segment.response_ids) <= 240
        assert len(segment.response_ids) == len(segment.response_mask) == len(segment.log_probs)
        assert segment.response_mask[-1] == 1
        sampled += sum(segment.response_mask)
    assert sampled == sum(len(request.output.token_ids) for request in server.requests)
    assert {request.id for request in server.requests} == {conversation.request_id}
    for turn in episode.turns:
        assert conversation.segments[turn.segment].response_ids[slice(*turn.tokens)] == reply
    # every request ends in what the environment said last, whatever was folded before
    prompts = [tokenizer.decode(request.prompt) for request in server.requests]
    replies = [text for text in prompts if ASK not in text.rsplit("<|im_start|>user", 1)[-1]]
    assert len(replies) == 100 and all(observation in text for observation, text in zip(SAID, replies, strict=False))
    assert all(SAID[0] in text for text in prompts)
    folds = len(conversation.segments) - 1
    assert len(server.requests) == 100 + (folds if context == "summary" else 0) == episode.calls
    noted = [turn.notes for turn in episode.turns if turn.notes]
    assert noted == (["go on"] * folds if context == "summary" else [])
    assert (episode.prompt_tokens, episode.response_tokens) == (
        sum(len(segment.prompt_ids) for segment in conversation.segments),
        sum(len(segment.response_ids) for segment in conversation.segments),
    )


@settings(deadline=None, max_examples=swept(40))
@given(
    words=st.lists(st.integers(0, 8), min_size=2, max_size=30),
    replies=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    context=st.sampled_from(["full", "window", "fold", "summary"]),
    keep=st.integers(1, 4),
    response_limit=st.integers(150, 300),
)
def test_samples_of_any_episode(tokenizer, builder, words, replies, context, keep, response_limit):
    observations = [" ".join(["word"] * number) for number in words]
    server = FakeServer([[5] * (length - 1) + [tokenizer.eos_token_id] for length in replies])
    episode, conversation = run(
        server, tokenizer, builder, observations, 200, response_limit, context=context, keep_turns=keep, notes_tokens=8
    )
    assert episode.ending in (Ending.TERMINATED, Ending.CONTEXT_LIMIT)
    assert len(conversation.segments) == 1 or context != "full"
    for segment in conversation.segments:
        assert len(segment.prompt_ids) <= 200 and len(segment.response_ids) <= response_limit
        assert not segment.response_ids or segment.response_mask[-1] == 1
    written = sum(sum(segment.response_mask) for segment in conversation.segments)
    assert written == sum(len(request.output.token_ids) for request in server.requests)


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_a_window_shows_the_last_turns_at_every_turn(tokenizer, builder, keep):
    replies = [f"go {number}" for number in range(12)]
    server = FakeServer([[*tokenizer.encode(reply), tokenizer.eos_token_id] for reply in replies])
    episode, conversation = run(server, tokenizer, builder, SAID[:13], 400, 400, context="window", keep_turns=keep)
    assert [turn.response for turn in episode.turns] == replies
    for number, request in enumerate(server.requests):
        text = tokenizer.decode(request.prompt)
        shown = range(max(0, number - keep), number)
        assert [reply for reply in replies if f"{reply}<" in text] == [replies[turn] for turn in shown]
        assert [observation for observation in SAID[1:13] if observation in text] == [
            SAID[turn + 1] for turn in shown
        ] and SAID[0] in text
    assert [turn.segment for turn in episode.turns] == [max(0, turn - keep) for turn in range(12)]
    assert sum(sum(segment.response_mask) for segment in conversation.segments) == sum(
        len(request.output.token_ids) for request in server.requests
    )


def test_what_cannot_be_folded_ends_the_episode(tokenizer, builder):
    server = FakeServer([[5, tokenizer.eos_token_id]])
    observations = ["Start.", "far too long " * 100, "End."]
    episode, conversation = run(server, tokenizer, builder, observations, context="fold")
    assert (episode.ending, len(episode.turns), len(conversation.segments)) == (Ending.CONTEXT_LIMIT, 1, 1)


def test_no_room_for_a_reply_and_notes_is_a_mistake_of_the_recipe(tokenizer, builder):
    rules = {"response_limit": 120, "context": "summary", "notes_tokens": 60}
    episode, _ = run(FakeServer([[5]]), tokenizer, builder, SAID, **rules)
    assert episode.ending is Ending.ROLLOUT_ERROR and "raise model.response_tokens" in episode.error


def test_a_server_that_drops_the_request_for_notes(tokenizer, builder):
    server = FakeServer([[*tokenizer.encode("go on"), tokenizer.eos_token_id]])
    generate = server.generate

    async def drops(request_id, *, prompt_ids, sampling_params):
        output = await generate(request_id, prompt_ids=prompt_ids, sampling_params=sampling_params)
        if sampling_params["max_tokens"] == 16:
            output.stop_reason = "aborted"
        return output

    server.generate = drops
    episode, _ = run(server, tokenizer, builder, SAID, context="summary", notes_tokens=16)
    assert episode.ending is Ending.ABORTED


def test_folded_messages():
    opening = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "Start."}]
    exchanges = [Exchange("a", "1"), Exchange("b", "2"), Exchange("c", "3")]
    messages = folded(opening, exchanges, 1, "two doors")
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[1]["content"] == "Start.\n\n(Turns 1 to 2 are not shown.)\n\nYour notes:\ntwo doors"
    assert [message["content"] for message in messages[2:]] == ["c", "3"]
    assert folded(opening, exchanges, 2, "")[1]["content"] == "Start.\n\n(Turn 1 is not shown.)"
    assert folded(opening, exchanges, 3, "")[1]["content"] == "Start."


def test_notes_of_an_expert():
    parse = reader(toy.Counter("compact").spec, ActionFormat.REACT)
    exchanges = [Exchange(f"Action: say {number}", "fine") for number in range(3)]
    assert plain_notes(exchanges, parse, lambda text: True) == "Done: say 0; say 1; say 2"
    assert plain_notes(exchanges, parse, lambda text: len(text) < 20) == "Done: say 1; say 2"
    assert plain_notes(exchanges, parse, lambda text: False) == plain_notes([], parse, lambda text: True)


@pytest.mark.parametrize("context", ["window", "fold", "summary"])
def test_experts_are_folded_as_rollouts_are(tokenizer, builder, context):
    """A rollout that says what the expert said makes the same samples of it, up to the notes."""
    observations = SAID[:30]
    replies = [f"Action: say {number}" for number in range(29)]
    end = tokenizer.eos_token_id
    rules = RolloutSettings(style="compact", max_new_tokens=24, context=context, notes_tokens=24)
    parse = reader(toy.Counter("compact").spec, ActionFormat.REACT)
    opening = [*toy.Counter("compact").spec.conversation_start("compact"), {"role": "user", "content": observations[0]}]
    messages = [*opening]
    for reply, observation in zip(replies, observations[1:], strict=True):
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": observation}]
    trajectory = Trajectory.of(str(Task("counter", 2)), messages[:-1], len(opening) - 1)
    limits = {"prompt_limit": 300, "response_limit": 200}
    demonstrated, examples = encoded.encoded(trajectory, tokenizer, builder, settings=rules, **limits)
    exchanges = [Exchange(*pair) for pair in zip(replies, observations[1:], strict=True)]

    class Expert(FakeServer):
        turn = 0

        async def generate(self, request_id, *, prompt_ids, sampling_params):
            if ASK in tokenizer.decode(prompt_ids).rsplit("<|im_start|>user", 1)[-1]:
                fits = lambda text: len(tokenizer.encode(text)) + 1 <= 24  # noqa: E731
                text = plain_notes(exchanges[: self.turn], parse, fits)
            else:
                text, self.turn = replies[self.turn], self.turn + 1
            self.replies = [[*tokenizer.encode(text), end]]
            return await super().generate(request_id, prompt_ids=prompt_ids, sampling_params=sampling_params)

    episode, conversation = asyncio.run(
        run_episode(
            lambda: Talking(observations, "compact"),
            TASK,
            lambda: TokenConversation(
                server=Expert([[0]]), tokenizer=tokenizer, builder=builder, sampling={}, settings=rules, **limits
            ),
            rules,
            max_turns=99,
        )
    )
    assert len(examples) > 2
    assert examples == [of_segment(segment) for segment in conversation.segments]
    assert encoded.places(demonstrated) == encoded.places(episode)[: len(demonstrated.turns)]
    example_of_all = encoded.whole(trajectory, tokenizer, builder)
    notes = (
        0
        if context != "summary"
        else sum(sum(example.loss_weight) for example in examples) - sum(example_of_all.loss_weight)
    )
    assert sum(sum(example.loss_weight) for example in examples) - notes == sum(example_of_all.loss_weight)


def test_what_an_expert_must_not_teach_stays_unlearnt(tokenizer, builder):
    opening = [*toy.Counter("compact").spec.conversation_start("compact"), {"role": "user", "content": "Start."}]
    messages = [*opening, {"role": "assistant", "content": "good"}, {"role": "user", "content": "next"},
                {"role": "assistant", "content": "a slip"}]  # fmt: skip
    flags = (*[None] * len(opening), True, None, False)
    trajectory = Trajectory(str(TASK), tuple(messages), flags)
    rules = RolloutSettings(style="compact", max_new_tokens=24, context="window")
    limits = {"prompt_limit": 300, "response_limit": 200}
    _, (example,) = encoded.encoded(trajectory, tokenizer, builder, settings=rules, **limits)
    assert sum(example.loss_weight) == len(tokenizer.encode("good")) + 1
