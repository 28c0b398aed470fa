"""What an answer of an OpenAI-compatible API means; the sentences are those of the servers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.envs.calls import Call, read_call
from agentgym_rl.envs.completions import MAX_SAID_CHARACTERS, Answer, Meaning, read

TOO_LONG = [
    (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please "
          "reduce the length of the messages."),  # OpenAI, DeepSeek, OpenRouter
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens."),
    (429, "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 42000."),
    (400, "You passed 5000 input tokens and requested 64 output tokens. However, the model's context length is only "
          "4096 tokens, resulting in a maximum input length of 4032 tokens."),  # vLLM
    (400, "'max_tokens' or 'max_completion_tokens' is too large: 64. This model's maximum context length is 4096 "
          "tokens and your request has 4090 input tokens (64 > 4096 - 4090)."),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    (400, "max_tokens must be at least 1, got -904."),
    (500, "The prompt (total length 5000) is too long to fit into the model (context length 4096)."),
    (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens)."),  # SGLang
    (400, "Requested token count exceeds the model's maximum context length of 202752 tokens."),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens"),
    (422, "Input validation error: `inputs` must have less than 1024 tokens. Given: 1200"),  # TGI
    (400, "the request exceeds the available context size, try increasing it"),  # llama.cpp
    (400, "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it"),
    (500, "Context size has been exceeded."),
    (400, "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context "
          "length of only 4096 tokens"),  # LM Studio
    (400, "The number of tokens to keep from the initial prompt is greater than the context length."),
    (400, "The sum of prompt length (5000.0), query length (0) should not exceed max_num_tokens (4)"),  # TensorRT
    (400, "prompt is too long: 208310 tokens > 200000 maximum"),  # Anthropic
    (400, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length"),
    (413, "Request exceeds the maximum size"),
    (400, "The input token count (337807) exceeds the maximum number of tokens allowed (65536)."),  # Gemini
    (400, "Unable to submit request because the input token count is 32769 but model only supports up to 32768."),
    (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
    (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292"),  # Cohere
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),  # xAI
    (400, "Input is too long for requested model."),  # Bedrock
    (400, "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576"),
    (400, "prompt token count of 200000 exceeds the limit of 128000"),  # GitHub
    (400, "Prompt exceeds max length"),  # Zhipu
    (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"),  # DashScope
    (400, "Invalid request: Your request exceeded model token limit: 8192"),  # Moonshot
    (400, "invalid params, context window exceeds limit (2013)"),  # MiniMax
    (413, "Request body too large for gpt-4o model. Max size: 8000 tokens."),  # GitHub Models
    (413, "<html><head><title>413 Request Entity Too Large</title></head></html>"),
]  # fmt: skip
OTHERWISE = [
    (Meaning.REFUSED, 400, "the conversation has no context: 'messages' is missing"),
    (Meaning.REFUSED, 400, "Invalid context id"),
    (Meaning.REFUSED, 400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
    (Meaning.REFUSED, 400, "messages: text content blocks must be non-empty"),
    (Meaning.REFUSED, 400, "Conversation roles must alternate user/assistant/user/assistant/..."),
    (Meaning.REFUSED, 403, "Your request was denied"),
    (Meaning.REFUSED, 422, '[{"type": "extra_forbidden", "loc": ["body", "seed"]}]'),
    (Meaning.NO_ACCESS, 401, "Incorrect API key provided: none"),
    (Meaning.NO_ACCESS, 404, "The model `gpt` does not exist or you do not have access to it."),
    (Meaning.FILTERED, 400, "The response was filtered due to the prompt triggering Azure OpenAI's content management "
                            "policy. Please modify your prompt and retry."),
    (Meaning.FILTERED, 400, "Your request was rejected as a result of our safety system."),
    (Meaning.FILTERED, 403, "openai/gpt-4o requires moderation on OpenAI. Your input was flagged for violence."),
    (Meaning.FILTERED, 400, "Output data may contain inappropriate content."),
    (Meaning.NO_CREDIT, 402, "Insufficient Balance"),
    (Meaning.NO_CREDIT, 400, "Your credit balance is too low to access the Anthropic API."),
    (Meaning.NO_CREDIT, 403, "Your team has either used all available credits or reached its monthly spending limit."),
    (Meaning.FAULT, 429, "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 3"),
    (Meaning.FAULT, 429, "You exceeded your current quota, please check your plan. Please retry in 23s."),  # Gemini
    (Meaning.FAULT, 429, "Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000"),
    (Meaning.REFUSED, 400, "Invalid 'user': string too long. Expected a string with maximum length 64"),
    (Meaning.FAULT, 429, "Too many tokens per minute"),
    (Meaning.FAULT, 429, "Too many tokens, please wait before trying again."),  # Bedrock
    (Meaning.FAULT, 429, "Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your "
                         "current OpenAI S0 pricing tier."),  # Azure
    (Meaning.FAULT, 500, "context deadline exceeded"),  # servers in Go
    (Meaning.FAULT, 504, "context canceled"),
    (Meaning.FAULT, 529, "Overloaded"),
    (Meaning.FAULT, 408, "Request timeout"),
]  # fmt: skip


def body(message, **fields):
    return json.dumps({"error": {"message": message, **fields}}).encode()


@pytest.mark.parametrize(("status", "message"), TOO_LONG)
def test_a_conversation_that_is_too_long(status, message):
    for content in (message.encode(), body(message, code=None), json.dumps({"detail": message}).encode()):
        assert read(status, content).meaning is Meaning.TOO_LONG


@pytest.mark.parametrize(("meaning", "status", "message"), OTHERWISE)
def test_other_errors(meaning, status, message):
    for content in (message.encode(), body(message), json.dumps([{"error": {"message": message}}]).encode()):
        assert read(status, content).meaning is meaning


@pytest.mark.parametrize(("code", "meaning"), [
    ("context_length_exceeded", Meaning.TOO_LONG), ("tokens_limit_reached", Meaning.TOO_LONG),
    ("exceed_context_size_error", Meaning.TOO_LONG), ("model_context_window_exceeded", Meaning.TOO_LONG),
    ("request_too_large", Meaning.TOO_LONG), ("insufficient_quota", Meaning.NO_CREDIT),
    ("billing_hard_limit_reached", Meaning.NO_CREDIT), ("content_filter", Meaning.FILTERED),
    ("content_policy_violation", Meaning.FILTERED), ("data_inspection_failed", Meaning.FILTERED),
])  # fmt: skip
def test_a_code_says_it_without_words(code, meaning):
    assert read(400, body("Bad Request", code=code)).meaning is meaning
    assert read(400, body("Bad Request", type=code)).meaning is meaning


def test_what_an_error_says():
    assert read(400, body("no \n such\tfield")) == Answer(Meaning.REFUSED, "400: no such field")
    assert read(400, b'{"error": "no such field"}').text == "400: no such field"
    assert read(400, b'{"detail": "no such field"}').text == "400: no such field"
    assert read(404, b"<html>gone</html>").text == "404: <html>gone</html>"
    assert read(500, b"").text == "500: nothing"
    assert len(read(500, b"word " * 10_000).text) == MAX_SAID_CHARACTERS + len("500: ")


@pytest.mark.parametrize(("error", "meaning"), [
    ({"message": "Provider returned error", "code": 502}, Meaning.FAULT),
    ({"message": "Provider returned error", "code": "429"}, Meaning.FAULT),
    ({"message": "prompt is too long", "code": None}, Meaning.TOO_LONG),
    ("prompt is too long", Meaning.TOO_LONG),
    ({"message": "no", "code": "²00"}, Meaning.REFUSED),
])  # fmt: skip
def test_an_error_may_come_with_status_200(error, meaning):
    assert read(200, json.dumps({"error": error}).encode()).meaning is meaning
    assert (
        read(200, json.dumps({"choices": [{"error": error, "message": {"content": "half"}}]}).encode()).meaning
        is meaning
    )


def reply(content, finish_reason="stop", usage=None, **fields):
    message = {"role": "assistant", "content": content, **fields}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return read(200, json.dumps({"choices": [choice], "usage": usage, "error": None}).encode())


def test_a_reply():
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    assert reply("Action: go", "length", usage) == Answer(Meaning.REPLY, "Action: go", "length", 10, 2)


@pytest.mark.parametrize("content", [
    ["Action: ", "go"], [{"type": "text", "text": "Action: "}, {"type": "text", "text": "go"}],
    [{"type": "thinking", "thinking": [{"type": "text", "text": "stop?"}]}, {"type": "text", "text": "Action: go"}, 3],
])  # fmt: skip
def test_content_may_come_in_parts(content):
    assert reply(content).text == "Action: go"


@pytest.mark.parametrize("content", [None, "", "I go."])
@pytest.mark.parametrize("calls", [
    {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "go", "arguments": '{"to": "é"}'}}]},
    {"tool_calls": None, "function_call": {"name": "go", "arguments": '{"to": "é"}'}},
])  # fmt: skip
def test_a_call_of_a_function_is_part_of_the_reply(content, calls):
    answer = reply(content, "tool_calls", **calls)
    assert answer.meaning is Meaning.REPLY
    assert read_call(answer.text) == Call("go", {"to": "é"}, content or "")


def test_a_reply_may_be_empty():
    for content in (None, "", " ", []):
        assert (reply(content).meaning, reply(content).text.strip()) == (Meaning.REPLY, "")
    assert read(200, b'{"choices": [{"message": {"role": "assistant"}}]}') == Answer(Meaning.REPLY, "")


def test_an_empty_reply_that_a_filter_explains_is_filtered():
    answer = reply(None, "content_filter", {"prompt_tokens": 10, "completion_tokens": 0})
    assert (answer.meaning, answer.prompt_tokens) == (Meaning.FILTERED, 10)
    assert reply("half", "content_filter").meaning is Meaning.REPLY


def test_a_refusal_in_words_is_what_the_model_says():
    assert reply(None, refusal="I will not.") == Answer(Meaning.REPLY, "I will not.", "refusal")
    assert reply("No.", refusal="I will not.").text == "No."
    assert reply([{"type": "refusal", "refusal": "I will not."}]).text == "I will not."


@pytest.mark.parametrize("usage", [
    None, 3, [], {}, {"prompt_tokens": None}, {"prompt_tokens": "7", "completion_tokens": True},
    {"prompt_tokens": -1}, {"prompt_tokens": 1e300, "completion_tokens": 10**400},
])  # fmt: skip
def test_a_usage_that_says_nothing_is_none(usage):
    assert (reply("x", usage=usage).prompt_tokens, reply("x", usage=usage).completion_tokens) == (0, 0)


@pytest.mark.parametrize("data", [
    {}, [], None, 3, {"choices": None}, {"choices": []}, {"choices": [None]}, {"choices": {}}, {"choices": "text"},
    {"choices": [{"message": None}]}, {"choices": [{"message": {"content": 3}}]}, {"object": "list"},
])  # fmt: skip
def test_neither_reply_nor_error(data):
    assert read(200, json.dumps(data).encode()).meaning is Meaning.MALFORMED


def test_what_was_paid_for_no_reply_is_counted():
    paid = read(200, b'{"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 0}}')
    assert (paid.meaning, paid.prompt_tokens) == (Meaning.MALFORMED, 10)


@pytest.mark.parametrize(("status", "message", "unknown"), [
    (422, "extra_forbidden: body.max_completion_tokens, body.seed", {"max_completion_tokens", "seed"}),
    (400, "Unknown name \"seed\": cannot find field", {"seed"}),
    (400, "the seedling field is unknown", set()),
    (500, "seed", set()),
    (400, "prompt is too long with max_completion_tokens", set()),
])  # fmt: skip
def test_parameters_that_a_refusal_names(status, message, unknown):
    assert read(status, body(message)).unknown == unknown


@pytest.mark.parametrize("page", [b"<html>Welcome</html>", b"", b"\xff\xfe\x00", b"[" * 100_000, b'{"choices": NaN}'])
def test_a_page_is_no_reply(page):
    assert read(200, page).meaning is Meaning.MALFORMED


KEYS = st.sampled_from(("choices", "message", "content", "error", "code", "usage", "prompt_tokens", "refusal",
                        "finish_reason", "detail", "type", "text", "object"))  # fmt: skip
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(("error", "text", "refusal")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=4),
)
STATUSES = st.sampled_from((200, 204, 301, 400, 401, 402, 403, 404, 413, 422, 429, 500, 529)) | st.integers(100, 999)


@given(STATUSES, ODD.map(lambda data: json.dumps(data).encode()) | st.binary())
def test_no_body_however_odd_raises(status, odd):
    answer = read(status, odd)
    assert answer.text.encode() is not None and len(answer.text) < 100_000
    assert 0 <= answer.prompt_tokens < 2**53


@given(st.text(max_size=30))
def test_any_reply_is_read_as_it_is(text):
    assert reply(text).text == text
