"""Sessions of the gateway: what the model was fed is what is learned from, whatever a harness does to its history."""

import asyncio
import threading
from itertools import groupby

import pytest
from chats import TEMPLATES, Chat, chat_of
from fake_server import FakeServer
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept

from agentgym_rl.data.episode import Ending
from agentgym_rl.rollout.conversation import NoResponse

pytest.importorskip("verl")

from agentgym_rl.rollout.gateway import openai
from agentgym_rl.rollout.gateway.request import Refusal, Request
from agentgym_rl.rollout.gateway.tokens import TokenChat
from agentgym_rl.rollout.loop import Aborted
from agentgym_rl.rollout.settings import Thinking
from agentgym_rl.rollout.tokens import LONG

QWEN_TOOLS = """\
{%- if tools %}{{ '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}{% endif %}{{ '<tools>' }}
{%- for tool in tools %}{{ '\\n' + tool | tojson }}{% endfor %}{{ '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}
{%- for one in messages %}
{%- if one.role == 'user' or one.role == 'system' and not loop.first %}
{{- '<|im_start|>' + one.role + '\\n' + one.content + '<|im_end|>\\n' }}
{%- elif one.role == 'assistant' %}{{ '<|im_start|>assistant' }}
{%- if one.content %}{{ '\\n' + one.content }}{% endif %}
{%- for call in one.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}
{%- elif one.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + one.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
"""As Qwen2.5 and Qwen3 render tools, calls and results."""

LOOK = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>'


@pytest.fixture(scope="module")
def tools_chat() -> Chat:
    """A chat whose template renders tools."""
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    from agentgym_rl.rollout.builder import faithful

    tokenizer = chat_of.__wrapped__("chatml").tokenizer
    tokenizer.chat_template = QWEN_TOOLS
    builder = create_continuous_token_builder(tokenizer, hf_model_type="qwen2", chat_template_kwargs={})
    return Chat("tools", tokenizer, faithful(builder), tokenizer.convert_tokens_to_ids("<|im_end|>"))


def session(chat, replies, prompt_limit=10_000, response_limit=10_000, thinking="keep", **sampling):
    server = FakeServer(replies)
    return server, TokenChat(
        server=server, tokenizer=chat.tokenizer, builder=chat.builder, sampling=sampling, prompt_limit=prompt_limit,
        response_limit=response_limit, thinking=Thinking(thinking),
    )  # fmt: skip


def ask(tokens, messages, tools=(), room=1000, **named):
    """The reply to a request, which the harness gets."""
    sampled = asyncio.run(tokens.sample(Request(messages=messages, tools=tools, **named), room))
    return sampled.reply, sampled.keep()


def user(text):
    return {"role": "user", "content": text}


def learned(segments):
    """Each response that is learned from, with all that the model was fed before it, and its log-probabilities."""
    for segment in segments:
        at = 0
        for sampled, tokens in groupby(segment.response_mask):
            span = slice(at, at + len(list(tokens)))
            if sampled:
                prompt = segment.prompt_ids + segment.response_ids[:at]
                yield prompt, segment.response_ids[span], segment.log_probs[span]
            else:
                assert not any(segment.log_probs[span])
            at = span.stop


def check(server, segments, prompt_limit=10_000, response_limit=10_000):
    """The tokens learned are those sampled, each once, behind what the model was fed."""
    fed = [(each.prompt, each.output.token_ids, each.output.log_probs) for each in server.requests]
    assert sorted(learned(segments)) == sorted(fed)
    for segment in segments:
        assert len(segment.prompt_ids) <= prompt_limit and len(segment.response_ids) <= response_limit
        assert segment.response_mask[-1] == 1


REPLY = st.sampled_from(
    ["go on", f"I look. {CALL}", f"{CALL}\n{CALL}", "<think>\nso\n</think>\n\nyes", "<think> cut", ""]
)
ANY = st.lists(st.integers(0, 340), min_size=1, max_size=20)
WORDS = st.text("abc \n<>", max_size=12)
EDITS = st.sampled_from(
    ["no"] * 6 + ["retry", "drop thought", "reword", "window", "branch", "system", "tools", "insert"]
)


@settings(max_examples=swept(1000))
@given(
    name=st.sampled_from([*TEMPLATES, "tools"]),
    replies=st.lists(REPLY | ANY, min_size=1, max_size=6),
    steps=st.lists(st.tuples(EDITS, WORDS, st.integers(0, 10)), min_size=1, max_size=12),
    prompt_limit=st.sampled_from([5, 10_000]),
    thinking=st.sampled_from(["keep", "strip"]),
)
def test_whatever_a_harness_edits_the_tokens_learned_are_those_sampled(
    tools_chat, name, replies, steps, prompt_limit, thinking
):
    chat = tools_chat if name == "tools" else chat_of(name)
    server, tokens = session(
        chat, [chat.reply(each) if isinstance(each, str) else each for each in replies], prompt_limit,
        thinking=thinking,
    )  # fmt: skip
    messages, tools = [{"role": "system", "content": "You play."}, user("Count.")], [LOOK]
    for edit, words, place in steps:
        answered = [at for at, each in enumerate(messages) if each["role"] == "assistant"]
        match edit:
            case "drop thought" | "reword" if answered:
                at = answered[place % len(answered)]
                content = messages[at]["content"]
                text = content.rpartition("</think>")[2] if edit == "drop thought" else words
                messages = [*messages[:at], {**messages[at], "content": text}, *messages[at + 1 :]]
            case "window" if answered:
                messages = [messages[0], user("earlier turns are hidden"), *messages[answered[place % len(answered)] :]]
            case "branch" if answered:
                messages = [*messages[: answered[place % len(answered)] + 1], user(words)]
            case "system":
                messages = [{"role": "system", "content": words}, *messages[1:]]
            case "tools":
                tools = [] if tools else [LOOK]
            case "insert":
                messages = [*messages, {"role": "assistant", "content": words}, user("so?")]
        reply, _ = ask(tokens, messages, tools)
        if edit == "retry":
            reply, _ = ask(tokens, messages, tools)
        results = [{"role": "tool", "content": words, "tool_call_id": call.id} for call in reply.calls]
        messages = [*messages, reply.message, *(results or [user(words)])]
    check(server, tokens.segments, prompt_limit)


@pytest.mark.parametrize("name", ["chatml", "smollm2", "llama", "tools"])
def test_a_conversation_that_only_grows_is_one_segment_with_the_tokens_of_its_template(tools_chat, name):
    chat = tools_chat if name == "tools" else chat_of(name)
    server, tokens = session(chat, [chat.reply("Action: say 1"), chat.reply("Right.")])
    messages = [{"role": "system", "content": "You play."}, user("Count to 3.")]
    for text in ("Right.", "You said 2.", "So?"):
        reply, _ = ask(tokens, messages)
        messages = [*messages, reply.message, user(text)]
    assert len(tokens.segments) == 1
    assert server.requests[-1].prompt == chat.ids(messages[:-2])
    check(server, tokens.segments)


def test_tools_calls_and_results_are_rendered_by_the_template(tools_chat):
    calls = f"I look.\n{CALL}\n{CALL}"
    server, tokens = session(tools_chat, [tools_chat.reply(calls), tools_chat.reply("done")])
    reply, _ = ask(tokens, [user("go")], [LOOK])
    assert (reply.content, reply.finish) == ("I look.", "tool_calls")
    assert [(call.name, call.arguments) for call in reply.calls] == [("look", {"at": 1})] * 2
    results = [{"role": "tool", "content": text, "tool_call_id": "x"} for text in ("a wall", "a door")]
    ask(tokens, [user("go"), reply.message, *results], [LOOK])
    rendered = tools_chat.tokenizer.apply_chat_template(
        [user("go"), reply.message, *results], tools=[LOOK], add_generation_prompt=True, tokenize=False
    )
    assert tools_chat.tokenizer.decode(server.requests[1].prompt) == rendered
    assert len(tokens.segments) == 1


def test_a_request_that_is_rendered_while_its_session_ends_takes_no_server(monkeypatch):
    """Its episode has left its server, and would hold it for ever."""
    chat, begun, over = chat_of("chatml"), threading.Event(), threading.Event()
    server, tokens = session(chat, [chat.reply("late")])
    render = tokens._rendered

    def rendered(*arguments):
        begun.set()
        over.wait(10)
        return render(*arguments)

    monkeypatch.setattr(tokens, "_rendered", rendered)

    async def late():
        asked = asyncio.create_task(tokens.sample(Request(messages=[user("long " * LONG)]), 5))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        tokens.close()
        over.set()
        await asked

    with pytest.raises(Refusal, match="the session is over"):
        asyncio.run(late())
    assert server.requests == []


def test_a_template_without_tools_gets_them_as_text():
    chat = chat_of("chatml")
    server, tokens = session(chat, [chat.reply(CALL), chat.reply("done")])
    reply, _ = ask(tokens, [user("go")], [LOOK])
    assert reply.calls[0].name == "look" and reply.content == ""
    ask(tokens, [user("go"), reply.message, {"role": "tool", "content": "a wall", "tool_call_id": "x"}], [LOOK])
    shown = chat.tokenizer.decode(server.requests[1].prompt)
    assert shown.startswith('<|im_start|>system\nYou may call these tools:\n{"name": "look"')
    assert shown.endswith(
        "<|im_start|>user\n<tool_response>\na wall\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    assert len(tokens.segments) == 1


def test_what_comes_back_changed_by_a_client_only_in_form_is_the_same_message(tools_chat):
    """Clients strip texts, renew ids of calls and write their arguments anew."""
    server, tokens = session(tools_chat, [tools_chat.reply(f"<think>\nso\n</think>\n\nI look.\n{CALL}")])
    reply, _ = ask(tokens, [user("go")], [LOOK])
    assert reply.thought == "so"
    back = openai.read(
        {
            "tools": [LOOK],
            "messages": [
                user("go"),
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "I look. "}],
                    "tool_calls": [{"id": "other", "function": {"name": "look", "arguments": '{ "at" : 1 }'}}],
                },
                {"role": "tool", "tool_call_id": "other", "content": "a wall"},
            ],
        }
    )
    ask(tokens, back.messages, back.tools)
    assert len(tokens.segments) == 1
    check(server, tokens.segments)


def test_a_retry_a_branch_and_an_edit_fork():
    chat = chat_of("chatml")
    server, tokens = session(chat, [chat.reply(text) for text in ("one", "two", "three", "four", "five")])
    start = [user("go")]
    first, record = ask(tokens, start)
    assert (record.segment, record.text) == (0, "one")
    _, record = ask(tokens, start)
    assert record.segment == 1, "a retry"
    _, record = ask(tokens, [*start, first.message, user("on")])
    assert record.segment == 0, "it goes on from the first reply"
    _, record = ask(tokens, [*start, first.message, user("back")])
    assert record.segment == 2 and tokens.segments[2].response_mask[: len(chat.reply("one"))] == [0, 0, 0, 0]
    _, record = ask(tokens, [*start, {"role": "assistant", "content": "uno"}, user("on")])
    assert record.segment == 3, "an edit"
    check(server, tokens.segments)


def test_what_was_sampled_stands_in_a_shortened_history_as_it_was_sampled():
    chat = chat_of("chatml")
    letters = [*(token for letter in "say" for token in chat.tokenizer.encode(letter)), chat.end]
    assert letters != chat.reply("say"), "the model wrote it in other tokens than the tokenizer would"
    server, tokens = session(chat, [chat.reply("one"), letters, chat.reply("three")])
    first, _ = ask(tokens, [user("go")])
    second, _ = ask(tokens, [user("go"), first.message, user("on")])
    ask(tokens, [user("in short"), second.message, user("on")])
    start = chat.ids([user("in short")])
    assert server.requests[2].prompt[: len(start) + len(letters)] == start + letters
    assert len(tokens.segments) == 2
    check(server, tokens.segments)


@pytest.mark.parametrize(("thinking", "segments"), [("keep", 1), ("strip", 2)])
def test_a_thought_that_the_template_drops_is_kept_or_begins_a_segment(thinking, segments):
    chat = chat_of("qwen3")
    server, tokens = session(chat, [chat.reply("<think>\nzebra\n</think>\n\nyes")], thinking=thinking)
    reply, _ = ask(tokens, [user("go")])
    assert (reply.content, reply.thought) == ("yes", "zebra")
    messages = [user("go"), reply.message, user("on")]
    ask(tokens, messages)
    assert len(tokens.segments) == segments
    shown = chat.tokenizer.decode(server.requests[1].prompt)
    assert ("zebra" in shown) == (thinking == "keep")
    assert thinking == "keep" or shown == chat.render(messages)
    check(server, tokens.segments)


def test_a_text_that_stops_the_reply_ends_its_tokens_there():
    chat = chat_of("chatml")
    _, tokens = session(chat, [chat.reply("Action: say 2\nObservation: nine")])
    reply, record = ask(tokens, [user("go")], stop=("Observation:", "never"))
    assert (reply.content, reply.finish, reply.stopped_by) == ("Action: say 2\n", "stop", "Observation:")
    ids = tokens.segments[0].response_ids
    assert chat.tokenizer.decode(ids).endswith("Observation:") and len(record.log_probs) == len(ids)


def test_a_reply_that_is_cut_says_so_and_gets_an_end_of_turn():
    chat = chat_of("chatml")
    server, tokens = session(chat, [chat.reply("Action: say 2"), chat.reply("yes")])
    reply, _ = ask(tokens, [user("go")], room=2)
    assert reply.finish == "length" and reply.completion_tokens == 2
    ask(tokens, [user("go"), reply.message, user("on")])
    between = server.requests[1].prompt[len(server.requests[0].prompt) + 2 :]
    assert chat.tokenizer.decode(between).startswith("<|im_end|>\n<|im_start|>user")
    check(server, tokens.segments)


def test_a_conversation_that_is_too_long_is_refused_and_a_shorter_one_goes_on():
    chat = chat_of("chatml")
    server, tokens = session(chat, [chat.reply("Action: say 2")], prompt_limit=30, response_limit=40)
    reply, _ = ask(tokens, [user("go")])
    with pytest.raises(NoResponse) as refused:
        ask(tokens, [user("go"), reply.message, user("x" * 60)])
    assert refused.value.ending is Ending.CONTEXT_LIMIT
    ask(tokens, [user("short")])
    check(server, tokens.segments, 30, 40)


def test_what_a_template_cannot_render_is_the_requests_fault():
    chat = chat_of("gemma")
    _, tokens = session(chat, [chat.reply("one")])
    with pytest.raises(Refusal, match="cannot render these messages: TemplateError: System role not supported"):
        ask(tokens, [{"role": "system", "content": "x"}, user("go")])


def test_a_request_that_the_server_dropped_leaves_nothing():
    chat = chat_of("chatml")
    server, tokens = session(chat, [chat.reply("one")])
    server.stop_reason = "aborted"
    with pytest.raises(Aborted):
        ask(tokens, [user("go")])
    assert tokens.segments == []


def test_each_request_of_a_seeded_session_has_a_seed_of_its_own():
    chat = chat_of("chatml")
    seeds = []
    for _ in range(2):
        server, tokens = session(chat, [chat.reply("one")], seed=7)
        for _ in range(2):
            ask(tokens, [user("go")])
        seeds.append([each.sampling["seed"] for each in server.requests])
    assert seeds[0] == seeds[1] and len({*seeds[0]}) == 2
