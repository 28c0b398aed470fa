"""Every context and every way to treat thinking, on chat templates of each kind.

What the model was fed, token for token, is what is trained on, with loss on the tokens it sampled and no others.
"""

import asyncio
from itertools import groupby, pairwise

import encoded
import pytest
import toy
from chats import TEMPLATES, chat_of
from fake_server import FakeServer
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept
from test_tokens import TASK, Talking

from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.data.episode import Ending
from agentgym_rl.rollout.loop import run_episode
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import of_segment
from agentgym_rl.rollout.tokens import TokenConversation

pytest.importorskip("verl")

OPENING = toy.Counter("compact").spec.conversation_start("compact")
MODES = [(name, "keep") for name in TEMPLATES] + [("qwen3", "strip"), ("qwen3_opened", "strip")]
SECRET = "zebra"
EMPTY = "\n</think>\n\n"
"""Closes a thought without words that the prompt opened."""


def run(chat, replies, observations, prompt_limit=400, response_limit=2000, **rules):
    rules = RolloutSettings(style="compact", retries=0, **rules)
    server = FakeServer(replies)

    def conversation():
        return TokenConversation(
            server=server, tokenizer=chat.tokenizer, builder=chat.builder, sampling={}, prompt_limit=prompt_limit,
            response_limit=response_limit, settings=rules,
        )  # fmt: skip

    made = run_episode(lambda: Talking(observations, "compact"), TASK, conversation, rules, max_turns=50)
    episode, played = asyncio.run(made)
    return episode, played, server.requests


def thinking(chat, thought, answer):
    opened = "" if chat.name == "qwen3_opened" else "<think>\n"
    return f"{opened}{thought}\n</think>\n\n{answer}"


def fed(segments):
    """Each response with what the model was fed before it and its log-probabilities, as they are trained on."""
    for segment in segments:
        at = 0
        for learnt, tokens in groupby(segment.response_mask):
            span = slice(at, at + len(list(tokens)))
            if learnt:
                prompt = segment.prompt_ids + segment.response_ids[:at]
                yield prompt, segment.response_ids[span], segment.log_probs[span]
            else:
                assert not any(segment.log_probs[span])
            at = span.stop


REPLY = st.tuples(st.sampled_from(["", "", f"{SECRET} {SECRET}"]), st.sampled_from(["go on", "Action: look", ""]))
ANY = st.lists(st.integers(0, 300), min_size=1, max_size=20)


@settings(max_examples=swept(150))
@given(
    mode=st.sampled_from(MODES),
    context=st.sampled_from(["full", "window", "fold", "summary"]),
    keep=st.integers(1, 3),
    words=st.lists(st.integers(0, 8), min_size=2, max_size=12),
    replies=st.lists(REPLY | ANY, min_size=1, max_size=6),
    response_limit=st.integers(120, 300),
    max_new_tokens=st.integers(1, 30),
)
def test_what_was_fed_is_what_is_trained_on(mode, context, keep, words, replies, response_limit, max_new_tokens):
    chat, strips = chat_of(mode[0]), mode[1] == "strip"
    sampled = [
        reply if isinstance(reply, list) else chat.reply(thinking(chat, *reply) if reply[0] else reply[1])
        for reply in replies
    ]
    observations = [" ".join(["word"] * number) for number in words]
    episode, conversation, requests = run(
        chat, sampled, observations, 200, response_limit,
        context=context, thinking=mode[1], keep_turns=keep, max_new_tokens=max_new_tokens, notes_tokens=8,
    )  # fmt: skip
    assert episode.ending in (Ending.TERMINATED, Ending.CONTEXT_LIMIT)
    assert list(fed(conversation.segments)) == [
        (request.prompt, request.output.token_ids, request.output.log_probs) for request in requests
    ]
    for segment in conversation.segments:
        assert len(segment.prompt_ids) <= 200 and len(segment.response_ids) <= response_limit
        assert segment.response_mask[-1] == 1
        for at, (sampled_here, following) in enumerate(pairwise(segment.response_mask)):
            if sampled_here and not following and segment.response_ids[at] != chat.end:
                assert segment.response_ids[at + 1] == chat.end
    for turn in episode.turns:
        start, stop = turn.tokens
        assert set(conversation.segments[turn.segment].response_mask[start:stop]) == {1}
        ids = conversation.segments[turn.segment].response_ids[start:stop]
        assert chat.tokenizer.decode(ids, skip_special_tokens=True) == turn.response
    if context == "full":
        for segment, another in pairwise(conversation.segments):
            assert strips and another.ids[: len(segment.ids)] != segment.ids
    if strips and not any(isinstance(reply, list) for reply in replies):
        assert not any(SECRET in chat.tokenizer.decode(request.prompt) for request in requests)


@settings(max_examples=swept(30))
@given(replies=st.lists(REPLY, min_size=1, max_size=6), max_new_tokens=st.integers(1, 30))
@pytest.mark.parametrize("name", ["qwen3", "qwen3_opened"])
def test_strip_feeds_what_the_template_renders(name, replies, max_new_tokens):
    chat, end = chat_of(name), chat_of(name).tokenizer.decode([chat_of(name).end])
    sampled = [chat.reply(thinking(chat, *reply)) for reply in replies]
    observations = [f"Room {number}." for number in range(len(replies) + 1)]
    _, conversation, requests = run(chat, sampled, observations, thinking="strip", max_new_tokens=max_new_tokens)
    messages = [*OPENING, {"role": "user", "content": observations[0]}]
    for request, seen in zip(requests, observations[1:], strict=True):
        assert request.prompt == chat.ids(messages)
        answer = chat.tokenizer.decode(request.output.token_ids).removesuffix(end)
        answer = answer.rpartition("</think>")[2].strip("\n") if "</think>" in answer else ""
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": seen}]
    assert len(conversation.segments) == len(requests)


@pytest.mark.parametrize("thoughts", [(), (0,), (1, 2), (4,), (0, 1, 2, 3, 4)])
def test_a_segment_ends_where_thinking_is_dropped_and_nowhere_else(thoughts):
    chat = chat_of("qwen3")
    sampled = [chat.reply(thinking(chat, "hm", "go on") if turn in thoughts else "go on") for turn in range(5)]
    observations = [f"Room {number}." for number in range(6)]
    episode, conversation, _ = run(chat, sampled, observations, thinking="strip")
    assert len(conversation.segments) == 1 + len([turn for turn in thoughts if turn < 4]) == episode.segments
    episode, conversation, requests = run(chat, sampled, observations, thinking="keep")
    assert len(conversation.segments) == 1
    assert chat.tokenizer.decode(requests[-1].prompt).count("hm") == len([turn for turn in thoughts if turn < 4])


@pytest.mark.parametrize(("thinking_mode", "times"), [("keep", 2), ("strip", 0)])
def test_a_fold_keeps_or_strips_the_thinking_of_the_turns_it_shows(thinking_mode, times):
    chat = chat_of("qwen3")
    reply = chat.reply(thinking(chat, SECRET, "go on"))
    rules = {"context": "fold", "keep_turns": 2, "max_new_tokens": len(reply), "thinking": thinking_mode}
    limit = 120 if thinking_mode == "keep" else 60
    _, conversation, _ = run(chat, [reply], [f"Room {number}." for number in range(12)], 300, limit, **rules)
    shown = [chat.tokenizer.decode(segment.prompt_ids) for segment in conversation.segments]
    folded = [text for text in shown if "not shown" in text]
    assert folded and all(text.count(SECRET) == times and text.count("go on") == 2 for text in folded)


def test_a_fold_closes_the_cut_turns_that_it_shows():
    chat = chat_of("chatml")
    observations = [f"Room {number}." for number in range(12)]
    _, conversation, _ = run(chat, [chat.reply("go on")], observations, 300, 60, context="fold", max_new_tokens=2)
    shown = [chat.tokenizer.decode(segment.prompt_ids) for segment in conversation.segments[1:]]
    assert shown and all(text.count("<|im_end|>") == text.count("<|im_start|>") - 1 == 6 for text in shown)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_cut_response_is_closed_as_the_template_closes_one(name):
    chat = chat_of(name)
    ids = chat.tokenizer.encode("Action: look")
    for limit in range(1, len(ids) + 1):
        episode, _, requests = run(chat, [[*ids, chat.end]], ["a", "b", "c"], max_new_tokens=limit)
        cut = [message | {"content": message["content"].strip()} for message in episode.messages]
        text = chat.tokenizer.decode(requests[-1].prompt)
        expected = chat.render(cut[:-1])
        if name == "qwen3_opened":  # kept as it was fed
            expected = expected.replace("assistant\nAct", "assistant\n<think>\nAct").replace("\nA<", "\n<think>\nA<")
        assert text.replace(" <|", "<|") == expected


@pytest.mark.parametrize("context", ["full", "window", "fold"])
@pytest.mark.parametrize(("name", "thinks"), MODES)
def test_demonstrations_are_cut_as_rollouts_are(name, thinks, context):
    chat = chat_of(name)
    silent = "Action: look" if name != "qwen3_opened" else EMPTY + "Action: look"
    texts = [thinking(chat, "hm " * turn, f"Action: say {turn}") if turn % 3 else silent for turn in range(9)]
    observations = [f"Room {number}." for number in range(10)]
    rules = {"context": context, "thinking": thinks, "max_new_tokens": 40}
    limits = {"prompt_limit": 300, "response_limit": 2000 if context == "full" else 200}
    episode, conversation, _ = run(chat, [chat.reply(text) for text in texts], observations, **limits, **rules)
    assert len(episode.turns) == 9 and (len(conversation.segments) == 1) == (context == "full" and thinks == "keep")
    written = [message | {"content": message["content"].removeprefix(EMPTY)} for message in episode.messages]
    demonstrated, examples = encoded.encoded(
        Trajectory.of(str(TASK), written, len(OPENING)), chat.tokenizer, chat.builder,
        settings=RolloutSettings(**rules), **limits,
    )  # fmt: skip
    assert examples == [of_segment(segment) for segment in conversation.segments]
    assert [where for _, *where in encoded.places(demonstrated)] == [where for _, *where in encoded.places(episode)]


def test_a_segment_without_a_response_to_learn_from_is_no_example():
    chat = chat_of("qwen3")
    messages = [*OPENING, {"role": "user", "content": "Start."}]
    for text in ("one", "two"):
        messages += [{"role": "assistant", "content": thinking(chat, "hm", text)}, {"role": "user", "content": "Next."}]
    flags = (*[None] * (len(OPENING) + 1), True, None, False)
    _, (example,) = encoded.encoded(
        Trajectory(str(TASK), tuple(messages[:-1]), flags), chat.tokenizer, chat.builder, prompt_limit=300,
        response_limit=200, settings=RolloutSettings(thinking="strip"),
    )  # fmt: skip
    assert sum(example.loss_weight) == len(chat.reply(thinking(chat, "hm", "one")))


def test_a_demonstration_that_outgrows_the_context_is_told():
    chat = chat_of("qwen3")
    messages = [*OPENING, {"role": "user", "content": "Start."}]
    messages += [{"role": "assistant", "content": "one"}, {"role": "user", "content": "far too long " * 50}]
    messages += [{"role": "assistant", "content": "two"}]
    with pytest.raises(ValueError, match=r"counter_2 does not fit.*model\.response_tokens=100"):
        encoded.encoded(
            Trajectory.of(str(TASK), messages, len(OPENING) + 1), chat.tokenizer, chat.builder, prompt_limit=300,
            response_limit=100, settings=RolloutSettings(thinking="strip"),
        )  # fmt: skip


@pytest.mark.parametrize(("name", "hidden"), [("chatml", False), ("llama", False), ("qwen3", True)])
def test_strip_without_an_effect_is_an_error(name, hidden):
    episode, *_ = run(chat_of(name, hidden), [[5]], ["a", "b"], thinking="strip")
    assert episode.ending is Ending.ROLLOUT_ERROR
    assert "rollout.thinking=strip has no effect: the model's chat template keeps" in episode.error


def test_notes_are_handed_on_without_their_thinking():
    chat = chat_of("qwen3")
    replies = [chat.reply(thinking(chat, SECRET, "the lamp"))]
    observations = [f"Room {number}." for number in range(12)]
    rules = {"context": "summary", "thinking": "strip", "max_new_tokens": 20, "notes_tokens": 20}
    episode, conversation, requests = run(chat, replies, observations, 300, 160, **rules)
    noted = [turn for turn in episode.turns if turn.notes]
    assert noted and {turn.notes for turn in noted} == {"the lamp"}
    assert not any(SECRET in chat.tokenizer.decode(request.prompt) for request in requests)
    assert sum(sum(segment.response_mask) for segment in conversation.segments) == len(requests) * len(replies[0])
