"""What the model sampled is what is learned from, token for token."""

import asyncio
import copy
import threading
from functools import partial
from math import isnan
from unicodedata import normalize

import encoded
import pytest
import toy
from fake_server import FakeServer
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.algorithms.base import Request
from agentgym_rl.algorithms.restarts import ANOTHER_WAY, Limit, RestartsConfig, Starts, replayed
from agentgym_rl.data.agenttraj import Trajectory, decode
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs.core import Observation, Step, Task
from agentgym_rl.rollout.conversation import ContextTooSmall, Scripted
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.prefix import Prefix, Replayed
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import from_rollout
from agentgym_rl.rollout.template import end_of_turn
from agentgym_rl.rollout.tokens import LONG, TokenConversation

TASK = Task("counter", 2)
VOCABULARY = 300
AMPLE = {"prompt_limit": 10_000, "response_limit": 10_000}


class Talking(toy.Counter):
    """Says these observations, the last one with the end of the task."""

    def __init__(self, observations, style):
        super().__init__(style)
        self.rest = list(observations)

    async def _reset(self, task):
        return Observation(self.rest.pop(0))

    async def _step(self, action):
        text = self.rest.pop(0)
        return Step(Observation(text), 0.0, terminated=not self.rest)


def run(server, tokenizer, builder, env, retries=0, max_new_tokens=1000, preface="", **extra):
    settings = RolloutSettings(retries=retries, max_new_tokens=max_new_tokens)
    conversation = partial(
        TokenConversation, server=server, tokenizer=tokenizer, builder=builder, sampling={"temperature": 0.7},
        settings=settings, **{**AMPLE, **extra},
    )  # fmt: skip
    return asyncio.run(run_episode(env, TASK, conversation, settings, max_turns=50, preface=preface))


TEXT = st.text(max_size=30).map(partial(normalize, "NFC"))
"""Qwen's tokenizer composes characters; any other text comes back from its tokens as it was."""
OBSERVATIONS = st.lists(TEXT, min_size=2, max_size=6)
STYLES = st.sampled_from(["agentgym", "compact"])
SAMPLED = st.tuples(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=20), st.booleans())
"""Any tokens of the vocabulary, most of them no canonical tokenisation of anything, with or without an end of turn."""


@given(
    observations=OBSERVATIONS,
    style=STYLES,
    replies=st.lists(SAMPLED, min_size=1, max_size=5),
    response_limit=st.integers(1, 400),
    max_new_tokens=st.integers(1, 25),
)
def test_tokens_of_any_episode(tokenizer, builder, observations, style, replies, response_limit, max_new_tokens):
    assert len(tokenizer) == VOCABULARY
    end = tokenizer.eos_token_id
    server = FakeServer([[*ids, end] if ends else ids for ids, ends in replies])
    episode, conversation = run(
        server,
        tokenizer,
        builder,
        lambda: Talking(observations, style),
        response_limit=response_limit,
        max_new_tokens=max_new_tokens,
    )
    response, decode = conversation.segments[0].response_ids, partial(tokenizer.decode, skip_special_tokens=False)
    assert episode.ending in (Ending.TERMINATED, Ending.CONTEXT_LIMIT)
    assert len(episode.turns) == len(server.requests) >= 1

    first = [*toy.Counter(style).spec.conversation_start(style), {"role": "user", "content": observations[0]}]
    rendered = tokenizer.apply_chat_template(first, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert conversation.segments[0].prompt_ids == rendered

    assert (
        len(response)
        == len(conversation.segments[0].response_mask)
        == len(conversation.segments[0].log_probs)
        == episode.response_tokens
        <= response_limit
    )
    assert conversation.segments[0].response_mask[-1] == 1
    learnt, log_probs = [0] * len(response), [0.0] * len(response)
    for turn, request in zip(episode.turns, server.requests, strict=True):
        span = slice(*turn.tokens)
        assert response[span] == request.output.token_ids
        assert turn.response == tokenizer.decode(request.output.token_ids, skip_special_tokens=True)
        assert turn.log_prob == pytest.approx(sum(request.output.log_probs))
        learnt[span] = [1] * len(request.output.token_ids)
        log_probs[span] = request.output.log_probs
        # What is requested is what will be learned from, up to here: a prefix cache finds the turns before.
        assert request.prompt == conversation.segments[0].prompt_ids + response[: turn.tokens[0]]
        assert request.sampling["max_tokens"] == min(max_new_tokens, response_limit - turn.tokens[0])
        assert request.sampling["temperature"] == 0.7
    assert (learnt, log_probs) == (conversation.segments[0].response_mask, conversation.segments[0].log_probs)
    assert len({request.id for request in server.requests}) == 1
    assert conversation.messages == episode.messages

    for number, (turn, following) in enumerate(zip(episode.turns, episode.turns[1:], strict=False), start=1):
        between = decode(response[turn.tokens[1] : following.tokens[0]])
        closing = "\n" if response[turn.tokens[1] - 1] == end else "<|im_end|>\n"
        header, footer = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
        assert between == f"{closing}{header}{episode.turns[number - 1].observation}{footer}"


def test_a_response_of_any_limit_ends_with_a_sampled_token(tokenizer, builder):
    lengths = set()
    for limit in range(1, 150):
        server = FakeServer([tokenizer.encode("Action: look")])
        _, conversation = run(server, tokenizer, builder, lambda: Talking("abcd", "compact"), response_limit=limit)
        assert len(conversation.segments[0].response_ids) <= limit
        assert conversation.segments[0].response_mask[-1] == 1
        lengths.add(len(conversation.segments[0].response_ids))
    assert {1, 2, 3, max(lengths)} <= lengths and max(lengths) < 149


@given(
    observations=OBSERVATIONS,
    style=STYLES,
    words=st.lists(st.sampled_from(["Action: say 1", "Thought:\nup .\n\nAction:\nsay 2"]) | TEXT.filter(str.strip)),
)
def test_a_supervised_example_is_the_rollout_that_samples_the_same_text(tokenizer, builder, observations, style, words):
    words = [*words, *["Action: look"] * len(observations)]
    server = FakeServer([[*tokenizer.encode(text), tokenizer.eos_token_id] for text in words])
    episode, conversation = run(server, tokenizer, builder, lambda: Talking(observations, style))
    assert [turn.response for turn in episode.turns] == words[: len(episode.turns)]
    start = len(toy.Counter(style).spec.conversation_start(style))
    trajectory = Trajectory.of(str(TASK), episode.messages, start)
    tokens = conversation.segments[0].prompt_ids + conversation.segments[0].response_ids
    example = encoded.whole(trajectory, tokenizer, builder, limit=len(tokens))
    assert example == from_rollout(tokens, conversation.segments[0].response_mask)
    assert sum(example.loss_weight) == sum(conversation.segments[0].response_mask)
    again, _ = encoded.encoded(trajectory, tokenizer, builder)
    assert encoded.places(again) == encoded.places(episode)
    assert [turn.action for turn in again.turns] == [turn.action for turn in episode.turns]
    assert (again.messages, again.start, again.reward) == (episode.messages, episode.start, 1.0)
    with pytest.raises(ContextTooSmall, match=f"counter_2 takes {len(tokens)} tokens"):
        encoded.whole(trajectory, tokenizer, builder, limit=len(tokens) - 1)


def test_only_flagged_replies_are_learnt_from(tokenizer, builder):
    def trajectory(*flags):
        messages = [("user", "Go."), ("assistant", "Action: a"), ("user", "Hm."), ("assistant", "Action: b")]
        loss = (None, flags[0], None, flags[1])
        return Trajectory("counter_2", tuple({"role": role, "content": text} for role, text in messages), loss)

    both, first, second, neither = (
        trajectory(*flags) for flags in ((True, True), (True, False), (False, True), (False, False))
    )
    example_of_all = encoded.whole(both, tokenizer, builder, 1000)
    reply = len(tokenizer.encode("Action: b")) + 1
    assert encoded.whole(first, tokenizer, builder, 1000).input_ids == example_of_all.input_ids
    ended = Trajectory("counter_2", (*both.messages, {"role": "user", "content": "The end."}), (*both.loss, None))
    assert encoded.whole(ended, tokenizer, builder, 1000) == example_of_all, (
        "a rollout does not show what ended the episode"
    )
    weights = [encoded.whole(conversation, tokenizer, builder, 1000).loss_weight for conversation in (first, second)]
    assert [a + b for a, b in zip(*weights, strict=True)] == example_of_all.loss_weight
    assert weights[1] == [0.0] * (len(example_of_all.input_ids) - reply) + [1.0] * reply
    with pytest.raises(ValueError, match="counter_2 has no response to train on"):
        encoded.whole(neither, tokenizer, builder, 1000)


@pytest.mark.parametrize("system", [True, False])
def test_the_first_response_of_roles_and_contents_is_learnt(tokenizer, builder, system):
    messages = [{"role": "system", "content": "Rules."}] if system else []
    for question, answered in (("Go.", "Action: a"), ("Hm.", "Action: b")):
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answered}]
    example = encoded.whole(decode({"item_id": "counter_2", "messages": messages}), tokenizer, builder, 1000)
    learnt = [token for token, weight in zip(example.input_ids, example.loss_weight, strict=True) if weight]
    assert tokenizer.decode(learnt) == "Action: a<|im_end|>Action: b<|im_end|>"


def test_the_end_of_a_turn_is_the_templates_and_not_the_end_of_text(tokenizer, builder):
    base = copy.deepcopy(tokenizer)  # like a base model's
    base.eos_token = base.pad_token
    assert base.eos_token_id != tokenizer.eos_token_id
    assert end_of_turn(base) == end_of_turn(tokenizer) == tokenizer.convert_tokens_to_ids("<|im_end|>")
    messages = ({"role": "user", "content": "Go."}, {"role": "assistant", "content": "Action: a"})
    example = encoded.whole(Trajectory("counter_2", messages, (None, True)), base, builder, 1000)
    learnt = [token for token, weight in zip(example.input_ids, example.loss_weight, strict=True) if weight]
    assert tokenizer.decode(learnt) == "Action: a<|im_end|>"
    base.chat_template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    assert end_of_turn(base) == base.eos_token_id


def test_a_prompt_that_does_not_fit_ends_the_episode_before_the_agent_is_asked(tokenizer, builder):
    server = FakeServer([[5]])
    episode, _ = run(server, tokenizer, builder, toy.Counter, retries=3, prompt_limit=10)
    assert (episode.ending, episode.attempts, server.requests) == (Ending.PROMPT_LIMIT, 1, [])
    assert "limited to 10; raise model.prompt_tokens or choose style=compact" in episode.error


def test_a_prompt_may_fill_its_room(tokenizer, builder):
    _, conversation = run(FakeServer([[5]]), tokenizer, builder, toy.Counter)
    length = len(conversation.segments[0].prompt_ids)
    endings = [
        run(FakeServer([[5]]), tokenizer, builder, toy.Counter, prompt_limit=limit)[0].ending
        for limit in (length, length - 1)
    ]
    assert endings == [Ending.TURN_LIMIT, Ending.PROMPT_LIMIT]


@pytest.mark.parametrize(
    ("reply", "reason"), [([5, 6], "aborted"), ([5, 6], "abort"), ([], "aborted"), ([], "completed")]
)
def test_a_dropped_request_aborts_the_episode(tokenizer, builder, reply, reason):
    server = FakeServer([reply], stop_reason=reason)
    episode, _ = run(server, tokenizer, builder, toy.Counter, retries=1)
    assert (episode.ending, episode.attempts) == (Ending.ABORTED, 2)
    assert len({request.id for request in server.requests}) == 2


def test_weights_are_the_steps_the_server_names(tokenizer, builder):
    server = FakeServer([[5]], global_steps=7, min_global_steps=6, max_global_steps=None)
    _, conversation = run(server, tokenizer, builder, toy.Counter)
    assert conversation.weights == {6, 7}


@given(
    observations=OBSERVATIONS,
    replies=st.lists(SAMPLED, min_size=5, max_size=5),
    turns=st.integers(0, 4),
)
def test_a_replayed_prefix_is_the_tokens_that_were_sampled(tokenizer, builder, observations, replies, turns):
    end = tokenizer.eos_token_id
    sampled = [[*ids, end] if ends else ids for ids, ends in replies]
    first, conversation = run(FakeServer(sampled), tokenizer, builder, lambda: Talking(observations, "compact"))
    turns = min(turns, len(first.turns) - 1)
    before = [
        Replayed(ids=conversation.segments[0].response_ids[slice(*turn.tokens)], log_prob=turn.log_prob, step=3)
        for turn in first.turns[:turns]
    ]
    server, prefix = FakeServer(sampled[turns:], global_steps=5), Prefix(responses=before, learn=True)
    second, again = run(server, tokenizer, builder, lambda: Talking(observations, "compact"), prefix=prefix)

    assert (
        again.segments[0].prompt_ids + again.segments[0].response_ids
        == conversation.segments[0].prompt_ids + conversation.segments[0].response_ids
    )
    assert again.segments[0].response_mask == conversation.segments[0].response_mask
    assert [turn.tokens for turn in second.turns] == [turn.tokens for turn in first.turns]
    assert [turn.calls for turn in second.turns] == [0] * turns + [1] * (len(second.turns) - turns)
    assert (second.prefix_turns, second.calls) == (turns, len(server.requests))
    assert (first.prefix_turns, first.calls) == (0, len(first.turns))
    assert second.messages == first.messages == again.messages
    assert [turn.log_prob for turn in second.turns[:turns]] == [turn.log_prob for turn in first.turns[:turns]]
    border = first.turns[turns].tokens[0]
    assert (
        server.requests[0].prompt
        == conversation.segments[0].prompt_ids + conversation.segments[0].response_ids[:border]
    )
    for at, (mask, value) in enumerate(zip(again.segments[0].response_mask, again.segments[0].log_probs, strict=True)):
        assert isnan(value) == (mask == 1 and at < border)
    assert again.weights == ({3, 5} if turns else {5})


def test_a_prefix_is_learned_from_only_where_it_says_so(tokenizer, builder):
    """As text, too: its tokens are those of a demonstration's responses."""

    def replayed(response, learn):
        server = FakeServer([[*tokenizer.encode(f"Action: say {number}"), tokenizer.eos_token_id] for number in (2, 3)])
        prefix = Prefix(responses=[response], learn=learn)
        return run(server, tokenizer, builder, toy.Counter, prefix=prefix)

    text = Replayed(text="Action: say 1")
    tokens = Replayed(ids=[*tokenizer.encode("Action: say 1"), tokenizer.eos_token_id], step=1)
    for response in (text, tokens):
        episode, unlearned = replayed(response, learn=False)
        _, learned = replayed(response, learn=True)
        span = slice(*episode.turns[0].tokens)
        (segment,), (other,) = unlearned.segments, learned.segments
        assert episode.success and segment.ids == other.ids
        assert segment.response_ids[span] == tokens.ids
        assert set(segment.response_mask[span]) == {0} and set(segment.log_probs[span]) == {0.0}
        assert set(other.response_mask[span]) == {1} and all(map(isnan, other.log_probs[span]))
        assert segment.response_mask[span.stop :] == other.response_mask[span.stop :]
        assert (unlearned.weights, learned.weights) == (set(), {1} if response is tokens else set())
    with pytest.raises(ValueError, match="neither text nor tokens"):
        Replayed()


@pytest.mark.parametrize("preface", ["", ANOTHER_WAY])
def test_a_start_in_the_middle_of_an_episode_is_arrived_at_and_not_learned_from(tokenizer, builder, preface):
    """``algorithm=exit`` replays text, and tells by the observations whether that led to the start."""

    def played(*numbers, **beginning):
        replies = [[*tokenizer.encode(f"Action: say {number}"), tokenizer.eos_token_id] for number in numbers]
        return run(FakeServer(replies), tokenizer, builder, toy.Counter, **beginning)

    starts = Starts(RestartsConfig())
    starts.offer(played(1, 2, 3)[0], range(1, 3), 0.2, 0)
    for length, start in zip((1, 2), starts.kept.values(), strict=True):
        request = start.request(Request(task=TASK), Limit.WHOLE, preface)
        episode, conversation = played(*range(length + 1, 4), prefix=request.prefix, preface=request.preface)
        episode.tags = dict(request.tags)
        assert (replayed(episode), episode.success) == (length, True)
        (segment,) = conversation.segments
        masks = [set(segment.response_mask[slice(*turn.tokens)]) for turn in episode.turns]
        assert masks == [{0}] * length + [{1}] * (3 - length)


def test_a_preface_stands_before_the_first_observation(tokenizer, builder):
    def played(preface):
        talking, scripted = partial(Talking, ["a", "b", "c"], "compact"), partial(Scripted, lambda _: "Action: x")
        return asyncio.run(run_episode(talking, TASK, scripted, RolloutSettings(), preface=preface))[0]

    episodes = [played(preface) for preface in ("", "Look twice.")]
    plain, prefaced = ([message["content"] for message in episode.messages] for episode in episodes)
    start = episodes[0].start - 1
    assert prefaced[start] == f"Look twice.\n\n{plain[start]}"
    assert [*prefaced[:start], *prefaced[start + 1 :]] == [*plain[:start], *plain[start + 1 :]]


def test_a_replayed_reply_that_does_not_fit_ends_the_episode(tokenizer, builder):
    prefix = Prefix(responses=[Replayed(ids=[5, 6, 7], log_prob=-1.0, step=0)])
    server = FakeServer([[5]])
    episode, _ = run(server, tokenizer, builder, toy.Counter, prefix=prefix, response_limit=2)
    assert (episode.ending, episode.turns, server.requests) == (Ending.CONTEXT_LIMIT, [], [])


def test_a_replayed_reply_may_be_longer_than_the_models_own(tokenizer, builder):
    """A demonstration's is, and what it leads to is what the model should be asked about."""
    server, prefix = FakeServer([[5]]), Prefix(responses=[Replayed(ids=[5, 6, 7])])
    episode, _ = run(server, tokenizer, builder, toy.Counter, prefix=prefix, max_new_tokens=2)
    assert [turn.calls for turn in episode.turns[:2]] == [0, 1] and len(episode.turns) == 50


def test_commands_to_avoid_are_sampled_again_at_the_branch_only(tokenizer, builder):
    def ids(text):
        return [*tokenizer.encode(text), tokenizer.eos_token_id]

    first, second, hm = ids("Action: say 1"), ids("Action: say 2"), ids("Thought: hm\nAction: say 2")
    server = FakeServer([second, hm, ids("Action: look"), second, ids("Action: say 3")])
    prefix = Prefix(responses=[Replayed(ids=first)], avoid=["say 2"], resamples=3)
    episode, conversation = run(server, tokenizer, builder, toy.Counter, prefix=prefix)
    assert [turn.action for turn in episode.turns] == ["say 1", "look", "say 2", "say 3"]
    assert [turn.calls for turn in episode.turns] == [0, 3, 1, 1]
    assert episode.success and episode.calls == len(server.requests) == 5
    assert conversation.segments[0].response_ids[slice(*episode.turns[1].tokens)] == server.requests[2].output.token_ids
    assert len({tuple(request.prompt) for request in server.requests[:3]}) == 1

    server = FakeServer([second])
    episode, _ = run(server, tokenizer, builder, toy.Counter, prefix=Prefix(responses=(), avoid=["say 2"], resamples=2))
    assert [(turn.action, turn.calls) for turn in episode.turns] == [("say 2", 3)]


def test_a_request_dropped_while_sampling_again_aborts_the_episode(tokenizer, builder):
    server = FakeServer([[*tokenizer.encode("Action: say 2")], []])
    episode, _ = run(server, tokenizer, builder, toy.Counter, prefix=Prefix(responses=(), avoid=["say 2"], resamples=2))
    assert (episode.ending, len(server.requests)) == (Ending.ABORTED, 2)


@given(texts=st.lists(TEXT, min_size=1, max_size=3))
def test_the_builder_renders_what_verls_does_and_nothing_twice(tokenizer, texts):
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    from agentgym_rl.rollout import builder as builders

    plain, ours, another = (
        create_continuous_token_builder(tokenizer, hf_model_type="qwen2", chat_template_kwargs={}) for _ in range(3)
    )
    builders._kinds.clear()
    rendered = []
    render = ours._render_tokens
    ours._render_tokens = lambda messages, **how: rendered.append(str((messages, how))) or render(messages, **how)
    for builder in (builders.faithful(ours), builders.faithful(another)):
        before = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
        for text in texts:
            after = [*before, {"role": "user", "content": text}]
            expected = plain.merge_context_tokens(before, after, [1, 2]).token_ids
            assert builder.merge_context_tokens(before, after, [1, 2]).token_ids == expected
            before = [*after, {"role": "assistant", "content": "z"}]
        for _ in range(2):
            prompt = builder.build_initial_tokens(before)
            assert prompt == plain.build_initial_tokens(before)
            prompt.append(1)
    assert rendered and len(rendered) == len(set(rendered))


def test_only_long_texts_are_tokenized_beside_the_other_episodes(tokenizer, builder, monkeypatch):
    merge, threads = builder.merge_context_tokens, []

    def noted(*arguments):
        threads.append(threading.current_thread() is threading.main_thread())
        return merge(*arguments)

    monkeypatch.setattr(builder, "merge_context_tokens", noted)
    run(FakeServer([[1]] * 3), tokenizer, builder, lambda: Talking(["a", "b" * LONG, "c" * (LONG + 1), "d"], "compact"))
    assert threads == [True, False]
