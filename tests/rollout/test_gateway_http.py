"""The gateway over HTTP: forms, streams, keys, limits, and bodies of every kind."""

import asyncio
import copy
import json
from dataclasses import replace
from urllib.parse import quote

import httpx
import pytest
from gateways import CHAT, GO, MESSAGES, echo, events, failing, opened, says, served
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept

from agentgym_rl.data.episode import Ending
from agentgym_rl.rollout.conversation import NoResponse, Response
from agentgym_rl.rollout.gateway import anthropic, app, openai
from agentgym_rl.rollout.gateway.body import deeper
from agentgym_rl.rollout.gateway.plain import plain
from agentgym_rl.rollout.gateway.server import Gateway
from agentgym_rl.rollout.gateway.session import Limits, Sessions
from agentgym_rl.rollout.gateway.texts import TextChat
from agentgym_rl.rollout.harness.service import Service

TOOL = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
CALL = 'I look. <tool_call>{"name": "look", "arguments": {"at": 1}}</tool_call>'


def post(path, body, chat=None, **limits):
    """The answer to one request."""

    async def test(session, client, gateway):
        return await client.post(path, content=json.dumps(body))

    return served(test, chat or says("hello"), **limits)


def test_an_answer_in_openais_form():
    response = post(CHAT, {**GO, "temperature": 0.5, "tool_choice": "auto"})
    assert response.status_code == 200 and response.headers["x-ignored-parameters"] == "temperature"
    body = response.json()
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "hello", "refusal": None}
    assert body["choices"][0]["finish_reason"] == "stop" and body["model"] == "m"


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_every_parameter_without_an_effect_is_named(path):
    """Nothing is dropped in silence; a name that no header can carry breaks no answer."""
    body = {**GO, "max_tokens": 9, "stop_token_ids": [7], "guided_json": {}, "min_tokens": None, "a\nb": 1, "\u00e4": 1}
    headers = post(path, body | {"best_of": 2}).headers
    assert headers["x-ignored-parameters"] == "best_of, guided_json, stop_token_ids"
    assert "x-ignored-parameters" not in post(path, {**GO, "stream": False, "tools": []}).headers


def test_calls_in_openais_form():
    choice = post(CHAT, {**GO, "tools": [{"type": "function", "function": TOOL}]}, says(CALL)).json()["choices"][0]
    call = choice["message"]["tool_calls"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] == "I look."
    assert call["function"] == {"name": "look", "arguments": '{"at": 1}'} and call["id"].startswith("call_")
    plain = post(CHAT, GO, says(CALL)).json()["choices"][0]
    assert plain["message"]["content"] == CALL, "without tools, it is text"


def test_a_stream_in_openais_form():
    body = {**GO, "stream": True, "stream_options": {"include_usage": True}}
    response = post(CHAT, {**body, "tools": [{"type": "function", "function": TOOL}]}, says(CALL))
    assert response.headers["content-type"].startswith("text/event-stream") and response.text.endswith(
        "data: [DONE]\n\n"
    )
    *chunks, last = events(response.text)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content") or "" for delta in deltas) == "I look."
    assert next(delta for delta in deltas if "tool_calls" in delta)["tool_calls"][0]["function"]["name"] == "look"
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert last["choices"] == [] and "total_tokens" in last["usage"]


def test_an_answer_in_anthropics_form():
    tool = {"name": "look", "input_schema": TOOL["parameters"]}
    body = {**GO, "max_tokens": 9, "system": "You play.", "tools": [tool]}
    answer = post(MESSAGES, body, says(CALL)).json()
    assert answer["stop_reason"] == "tool_use"
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]
    assert answer["content"][1]["input"] == {"at": 1}
    streamed = events(post(MESSAGES, {**body, "stream": True}, says(CALL)).text)
    assert [each["type"] for each in streamed][:2] == ["message_start", "content_block_start"]
    assert streamed[-2]["delta"]["stop_reason"] == "tool_use" and streamed[-1] == {"type": "message_stop"}


def test_both_forms_tell_the_model_the_same():
    """One conversation with a call and its result, in each form."""
    requests = []

    class Seen:
        segments, weights = (), ()

        async def sample(self, request, room):
            requests.append((request.messages, request.tools))
            return await says("ok").sample(request, room)

    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    post(
        CHAT,
        {
            "tools": [{"type": "function", "function": TOOL}],
            "messages": [
                {"role": "developer", "content": "You play."},
                {"role": "user", "content": [{"type": "text", "text": "go"}]},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": "a wall"},
                {"role": "user", "content": "and?"},
            ],
        },
        Seen(),
    )
    result = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "a wall"}]}
    post(
        MESSAGES,
        {
            "system": [{"type": "text", "text": "You play."}],
            "tools": [{"name": "look", "description": "Look.", "input_schema": TOOL["parameters"]}],
            "messages": [
                {"role": "user", "content": "go"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "so", "signature": "x"},
                        {"type": "tool_use", "id": "c", "name": "look", "input": {"at": 1}},
                    ],
                },
                {"role": "user", "content": [result, {"type": "text", "text": "and?"}]},
            ],
        },
        Seen(),
    )
    assert requests[0] == requests[1]


def request_of(path, body):
    """What the model is asked by a body."""
    form = openai if path == CHAT else anthropic
    return form.read({**body, "max_tokens": 9})


def texts(*parts):
    return [{"type": "text", "text": part} for part in parts]


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_parts_of_a_text_are_lines_but_of_the_assistants(path):
    said = [("user", texts("Look at", "the file")), ("assistant", texts("I lo", "ok.")), ("user", texts("and?"))]
    request = request_of(path, {"messages": [{"role": role, "content": content} for role, content in said]})
    assert [message["content"] for message in request.messages] == ["Look at\nthe file", "I look.", "and?"]


def test_parts_of_rules_and_results_are_lines():
    system, rows = texts("You play.", "Be brief."), texts("row 1", "row 2")
    of_openai = request_of(
        CHAT, {"messages": [{"role": "system", "content": system}, {"role": "tool", "content": rows}]}
    )
    result = {"type": "tool_result", "content": rows}
    of_anthropic = request_of(MESSAGES, {"system": system, "messages": [{"role": "user", "content": [result]}]})
    for request in (of_openai, of_anthropic):
        assert [message["content"] for message in request.messages] == ["You play.\nBe brief.", "row 1\nrow 2"]


@pytest.mark.parametrize(("is_error", "seen"), [(True, "Error: no file"), (False, "no file"), (None, "no file")])
def test_the_model_sees_that_a_tool_failed(is_error, seen):
    result = {"type": "tool_result", "tool_use_id": "c", "is_error": is_error, "content": "no file"}
    body = {"max_tokens": 9, "messages": [{"role": "user", "content": [result]}]}
    assert seen == plain(request_of(MESSAGES, body).messages)[0]["content"].splitlines()[1]
    wrong = {"max_tokens": 9, "messages": [{"role": "user", "content": [result | {"is_error": "yes"}]}]}
    assert "is_error is" in post(MESSAGES, wrong).json()["error"]["message"]


def test_calls_are_the_reason_to_stop_wherever_the_text_was_cut():
    tool = {"name": "look", "input_schema": TOOL["parameters"]}
    body = {**GO, "max_tokens": 9, "tools": [tool], "stop_sequences": ["\nObservation"]}
    for said, reason in ((CALL, ("tool_use", None)), ("I look.", ("stop_sequence", "\nObservation"))):
        chat = says(f"{said}\nObservation: a wall")
        answer = post(MESSAGES, body, chat).json()
        assert (answer["stop_reason"], answer["stop_sequence"]) == reason
        streamed = events(post(MESSAGES, {**body, "stream": True}, chat).text)[-2]["delta"]
        assert (streamed["stop_reason"], streamed["stop_sequence"]) == reason


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('{"at": "\\ud83d"}', {"at": "\ufffd"}),
        ('{"at": NaN}', '{"at": NaN}'),
        (f'{{"at": {"[" * 300}{"]" * 300}}}', f'{{"at": {"[" * 300}{"]" * 300}}}'),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=["half a pair", "no number", "deep", "deeper"],
)
def test_arguments_are_read_as_strictly_as_the_body_that_they_stand_in(arguments, read):
    """What is no object of JSON stays a text, so that a template and an API can encode it."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": arguments}}
    messages = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "ok"}]
    request = request_of(CHAT, {"messages": messages})
    assert request.messages[0]["tool_calls"][0]["function"]["arguments"] == read

    async def ask(messages, room):
        json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()  # as a client of an API does
        return Response("fine")

    assert post(CHAT, {"messages": messages}, TextChat(ask)).status_code == 200


def test_a_text_that_stands_for_a_value_can_be_encoded():
    properties = {"at": {"type": "array"}}
    tool = TOOL | {"parameters": {"type": "object", "properties": properties}}
    text = '<tool_call><function=look><parameter=at>["\\ud83d"]</parameter></function></tool_call>'
    choice = post(CHAT, {**GO, "tools": [{"type": "function", "function": tool}]}, says(text)).json()["choices"][0]
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"at": ["\ufffd"]}


BAD = {
    "n": {**GO, "n": 2},
    "no messages": {"messages": []},
    "prefill": {"messages": [{"role": "assistant", "content": "I"}]},
    "role": {"messages": [{"role": "king", "content": "I"}]},
    "image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    "content": {"messages": [{"role": "user", "content": 5}]},
    "logprobs": {**GO, "logprobs": True},
    "response_format": {**GO, "response_format": {"type": "json_object"}},
    "number": {**GO, "temperature": float("inf")},
    "max_tokens": {**GO, "max_tokens": 0},
    "stream": {**GO, "stream": "yes"},
    "stop": {**GO, "stop": [""]},
    "tools": {**GO, "tools": [{"type": "function"}]},
    "deep": {**GO, "x": json.loads("[" * 70 + "]" * 70)},
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_answered_is_refused_in_words(name):
    response = post(CHAT, BAD[name])
    assert response.status_code == 400 and response.headers["x-should-retry"] == "false"
    error = response.json()["error"]
    assert error["code"] == "invalid_request" and len(error["message"]) > 10


FORMS = [{"output_format": {"type": "json_schema"}}, {"output_config": {"format": {"type": "json_schema"}}}]


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_the_output_is_refused(form):
    response = post(MESSAGES, {**GO, "max_tokens": 9, **form})
    assert response.status_code == 400 and "ask for it in a message" in response.json()["error"]["message"]


def test_no_key_and_a_wrong_one_are_refused_alike():
    async def test(session, client, gateway):
        other = gateway.open(echo(), Limits())
        keys = [{}, {"authorization": "Bearer x"}, {"authorization": f"Bearer {other.key}"}, {"x-api-key": b"\xe4"}]
        async with httpx.AsyncClient(verify=False) as stranger:
            responses = [await stranger.post(f"{client.base_url}{CHAT[1:]}", json=GO, headers=each) for each in keys]
            responses.append(await stranger.post(f"{gateway.url}/sessions/no{CHAT}", json=GO, headers=client.headers))
            responses.append(await stranger.post(f"{gateway.url}/sessions/no/key/no%20session{CHAT}", json=GO))
        ways = {"authorization": "", "x-api-key": session.key}, {"authorization": f"bearer {session.key}"}
        return responses, [await client.post(CHAT, json=GO, headers=each) for each in ways]

    responses, right = served(test, says("hello"))
    assert {each.status_code for each in responses} == {401} and len({each.text for each in responses}) == 1
    assert [each.status_code for each in right] == [200, 200]


def test_a_harness_that_can_set_a_base_url_only_has_the_key_in_it():
    async def test(session, client, gateway):
        base = gateway.address(session, with_key=True)
        async with httpx.AsyncClient(verify=False) as bare:
            models = await bare.get(f"{base}/v1/models")
            chat = await bare.post(f"{base}{CHAT}", json=GO)
            reward = await bare.post(f"{base}/reward", json={"reward": 1})
        return [models.status_code, chat.status_code, reward.status_code]

    assert served(test, says("hello")) == [200] * 3


def test_limits_are_errors_that_the_harness_sees():
    async def test(session, client, gateway):
        responses = [await client.post(CHAT, json=GO) for _ in range(3)]
        return [each.status_code for each in responses], responses[-1].json()["error"]["code"], session.stopped

    assert served(test, says("hello"), max_turns=2) == ([200, 200, 400], "turn_limit", Ending.TURN_LIMIT)


def test_requests_side_by_side_do_not_pass_the_limit():
    async def test(session, client, gateway):
        responses = await asyncio.gather(*(client.post(CHAT, json=GO) for _ in range(8)))
        return sorted(each.status_code for each in responses), len(session.turns)

    assert served(test, says("hello", seconds=0.05), max_turns=3) == ([200] * 3 + [400] * 5, 3)


def test_tokens_are_limited_over_all_replies():
    rooms = []

    class Counting:
        segments, weights = (), ()

        async def sample(self, request, room):
            rooms.append(room)
            sampled = await says("hello").sample(request, room)
            return replace(sampled, reply=replace(sampled.reply, completion_tokens=min(room, 6)))

    async def test(session, client, gateway):
        bodies = [{**GO, "max_tokens": 7}, GO, {**GO, "max_tokens": 7}, GO]
        return [(await client.post(CHAT, json=body)).status_code for body in bodies], session.stopped

    assert served(test, Counting(), max_tokens=15, max_new_tokens=8) == ([200, 200, 200, 400], Ending.CONTEXT_LIMIT)
    assert rooms == [7, 8, 3]


def test_a_conversation_that_is_too_long_is_the_error_that_clients_know():
    response = post(CHAT, GO, failing(NoResponse(Ending.CONTEXT_LIMIT, "too long")))
    assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")


def test_a_model_that_fails_ends_the_session_and_clients_do_not_ask_again():
    async def test(session, client, gateway):
        responses = [await client.post(CHAT, json=GO), await client.post(MESSAGES, json=GO)]
        return [(each.status_code, each.headers["x-should-retry"]) for each in responses], str(session.failure)

    assert served(test, failing(OSError("gone"))) == ([(503, "false")] * 2, "gone")


def test_a_reward_ends_the_session():
    async def test(session, client, gateway):
        responses = [await client.post("/reward", json=body) for body in ({}, {"reward": 2}, {"reward": True}, [1])]
        responses += [await client.post("/reward", json={"reward": reward}) for reward in (0.5, 0.5, 0.7)]
        responses.append(await client.post(CHAT, json=GO))
        return [each.status_code for each in responses], session.reward

    assert served(test, says("hello")) == ([400] * 4 + [200, 200, 409, 409], 0.5)


def test_a_reply_that_nobody_receives_is_not_kept():
    async def test(session, client, gateway):
        with pytest.raises(httpx.ReadTimeout):
            await client.post(CHAT, json=GO, timeout=0.1)
        while session.idle == 0:
            await asyncio.sleep(0.02)
        lost = len(session.turns)
        await client.post(CHAT, json=GO)
        return lost, len(session.turns)

    assert served(test, says("hello", seconds=1.5)) == (0, 1)


@pytest.mark.parametrize("limits", [{"max_turns": 1}, {"max_tokens": 8, "max_new_tokens": 8}])
def test_a_request_that_was_given_up_takes_no_other_requests_place(limits):
    """A client that waits no longer asks again, while the model still writes what nobody receives."""

    async def test(session, client, gateway):
        with pytest.raises(httpx.ReadTimeout):
            await client.post(CHAT, json=GO, timeout=0.1)
        await asyncio.sleep(0.05)
        again = await client.post(CHAT, json=GO)
        return again.status_code, len(session.turns), session.stopped

    assert served(test, says("hello", seconds=0.6), **limits) == (200, 1, None)


def test_a_session_that_never_ends_is_reclaimed():
    now = [0.0]
    sessions = Sessions(ttl=10, clock=lambda: now[0])

    async def test(session, client, gateway):
        await client.post(CHAT, json=GO)
        now[0] = 9
        left = sessions.reclaim()
        now[0] = 11
        gone = sessions.reclaim()
        return left, gone == [session], (await client.post(CHAT, json=GO)).status_code, session.over.is_set()

    assert served(test, says("hello"), sessions) == ([], True, 401, True)


@pytest.mark.slow
def test_a_connection_stays_open_longer_than_servers_usually_let_it():
    async def test(session, client, gateway):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
        answers = []
        for seconds in (0, 6):
            await asyncio.sleep(seconds)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            answers.append(await reader.read(1 << 16))
        writer.close()
        return answers

    first, second = served(test, says("hello"))
    assert first.startswith(b"HTTP/1.1") and second.startswith(b"HTTP/1.1")


def test_sweeping_reclaims_by_itself():
    async def test(session, client, gateway):
        await asyncio.wait_for(session.over.wait(), 10)
        return len(gateway.sessions)

    assert served(test, says("hello"), Sessions(ttl=0.05)) == 0


@pytest.mark.slow
def test_a_thousand_sessions():
    """Each has its own conversation; none sees another's."""

    async def test(_, client, gateway):
        sessions = [gateway.open(echo(), Limits(max_turns=2)) for _ in range(1000)]
        places, talking = asyncio.Semaphore(50), range(0, 1000, 1000 // swept(1000))

        async def talk(number):
            body = {"messages": [{"role": "user", "content": f"I am {number}"}]}
            async with places:
                url = f"{gateway.address(sessions[number])}{CHAT}"
                response = await client.post(
                    url, json=body, headers={"authorization": f"Bearer {sessions[number].key}"}
                )
            return response.json()["choices"][0]["message"]["content"]

        replies = await asyncio.gather(*(talk(number) for number in talking))
        assert replies == [f"I am {number}" for number in talking] and len(gateway.sessions) == 1001
        for session in sessions:
            gateway.close(session)
        return len(gateway.sessions)

    assert served(test, echo()) == 1


def test_as_many_sessions_as_allowed():
    sessions = Sessions(limit=1)
    sessions.open(echo(), Limits())
    with pytest.raises(ValueError, match="1 sessions are open; close some, or allow more"):
        sessions.open(echo(), Limits())


def test_a_session_that_is_over_is_kept_until_it_is_reclaimed_or_another_needs_its_place(caplog):
    now = [0.0]
    sessions = Sessions(limit=2, ttl=10, clock=lambda: now[0])
    first, second = (sessions.open(echo(), Limits()) for _ in range(2))
    first.end(1)
    assert sessions.find(first.id, first.key) is first
    third = sessions.open(echo(), Limits())
    assert [*sessions] == [second, third]
    third.end(1)
    now[0] = 11
    assert sessions.reclaim() == [second, third] and len(sessions) == 0
    assert second.id in caplog.text and third.id not in caplog.text, "only one of them was closed too early"


def test_a_large_body_is_refused(monkeypatch):
    monkeypatch.setattr(app, "BODY", 1000)
    response = post(CHAT, {"messages": [{"role": "user", "content": "x" * 2000}]})
    assert response.status_code == 413


def test_what_is_not_there_is_told_with_what_is():
    async def test(session, client, gateway):
        return [await client.post("/v1/embeddings", json={}), await client.get(CHAT)]

    responses = served(test, echo())
    assert [each.status_code for each in responses] == [404, 405]
    assert all("/v1/chat/completions" in each.json()["error"]["message"] for each in responses)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["user", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["role", "content", "tool_calls", "function", "name", "arguments", "type", "text", "input"])
WORDS = st.sampled_from(["user", "assistant", "tool", "text", "tool_use", "tool_result", "function", "none", "look"])
OBJECT = st.dictionaries(NAMES, JSON | WORDS, max_size=4)
PIECE = JSON | WORDS | OBJECT | st.lists(OBJECT, max_size=2)

OPENAI = {
    **GO,
    "tools": [{"type": "function", "function": TOOL}],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "stop": ["x"],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 5,
    "temperature": 1,
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "You play."}]},
        {"role": "assistant", "content": "I look.", "reasoning_content": "so", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}]},
        {"role": "tool", "tool_call_id": "c", "content": "a wall"},
        {"role": "user", "content": "and?"},
    ],
}  # fmt: skip
ANTHROPIC = {
    "model": "m",
    "max_tokens": 5,
    "system": [{"type": "text", "text": "You play."}],
    "tools": [{"name": "look", "input_schema": TOOL["parameters"]}],
    "tool_choice": {"type": "any"},
    "stop_sequences": ["x"],
    "stream": True,
    "messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {"at": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "a wall"}]},
    ],
}


def places(body):
    """The paths to all values of a body."""
    items = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    return [path for key, value in items for path in ((key,), *((key, *rest) for rest in places(value)))]


def changed(body, path, value):
    """The body with another value at a path."""
    body = copy.deepcopy(body)
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(body).encode()


def bodies(body):
    """Bodies of every kind, most of which are nearly right."""
    near = st.builds(changed, st.just(body), st.sampled_from(places(body)), PIECE)
    return near | near | st.binary(max_size=50) | JSON.map(lambda value: json.dumps(value).encode())


REWARD, OPENING = {"reward": 0.5}, {"item_id": "textcraft_3", "max_turns": 2}
SESSION = "/sessions/{id}"
NEARLY = {SESSION + CHAT: OPENAI, SESSION + MESSAGES: ANTHROPIC, SESSION + "/reward": REWARD, "/sessions": OPENING}
RIGHT = st.one_of(st.tuples(st.just("POST"), st.just(path), bodies(body)) for path, body in NEARLY.items())
ANY = st.tuples(
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS"]),
    st.sampled_from([*NEARLY, SESSION, f"{SESSION}/v1/models", f"{SESSION}/key/{{key}}{CHAT}", "/"])
    | st.text(max_size=9).map(lambda text: f"{SESSION}/{quote(text)}")
    | st.text(max_size=9).map(lambda text: f"{SESSION}/key/{quote(text)}/reward"),
    st.binary(max_size=50),
)
"""Requests of any kind."""


@pytest.mark.parametrize(("path", "body"), [(CHAT, OPENAI), (MESSAGES, ANTHROPIC)])
def test_the_bodies_that_are_changed_are_right(path, body):
    response = post(path, body, says(CALL))
    assert response.status_code == 200
    assert response.headers["x-ignored-parameters"] == ("temperature, tool_choice" if path == CHAT else "tool_choice")


@pytest.fixture(scope="module")
def ask_gateway():
    """Sends a request to a session of a gateway that has a thousand others; gives the answer and the session."""
    loop, sessions = asyncio.new_event_loop(), Sessions()
    service = Service(lambda number: says(CALL), "secret", Limits(), None, sessions)
    made = opened(says(CALL), sessions, service.open)
    _, client, gateway = loop.run_until_complete(made.__aenter__())
    for _ in range(1000):
        gateway.open(says(CALL), Limits())

    def ask(method, path, body, key=None):
        session = gateway.open(says(CALL), Limits())
        url = gateway.url + path.replace("{id}", session.id).replace("{key}", session.key)
        head = {"x-api-key": (key or ("secret" if path == "/sessions" else session.key)).encode("latin-1")}
        response = loop.run_until_complete(client.request(method, url, content=body, headers=head))
        for each in [*sessions][1001:]:
            gateway.close(each)
        return response, session

    yield ask
    loop.run_until_complete(service.close())
    loop.run_until_complete(made.__aexit__(None, None, None))
    loop.close()


@settings(max_examples=swept(300))
@given(RIGHT)
def test_any_body_is_answered(ask_gateway, sent):
    response, session = ask_gateway(*sent)
    assert response.status_code in (200, 400) and session.failure is None, response.text
    if response.status_code == 400:
        assert response.json()["error"]["message"]


@settings(max_examples=swept(300))
@given(ANY, st.none() | st.text(st.characters(min_codepoint=0xA1, max_codepoint=0xFF), min_size=1, max_size=9))
def test_any_request_is_answered(ask_gateway, sent, key):
    response, session = ask_gateway(*sent, key)
    assert response.status_code < 500 and session.failure is None, response.text
    if response.status_code >= 400:
        assert response.json()["error"]["message"]


def test_a_gateway_listens_on_loopback_unless_told():
    async def run():
        async with Gateway() as gateway:
            return gateway.url

    assert asyncio.run(run()).startswith("http://127.0.0.1:")


ODD = {
    "no number": '{"name": "look", "arguments": {"at": NaN}}',
    "half a pair": '{"name": "look", "arguments": {"at": "\\ud800"}}',
    "long name": f'{{"name": "{"x" * 300}", "arguments": {{}}}}',
    "deep": f'{{"name": "look", "arguments": {{"at": {"[" * 800}{"]" * 800}}}}}',
    "no name": '{"name": "", "arguments": {}}',
    "no arguments": '{"name": "look", "arguments": 5}',
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("body", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_what_a_model_writes_as_a_call_can_come_back(odd, body):
    path = CHAT if body is OPENAI else MESSAGES

    async def test(session, client, gateway):
        first = await client.post(path, json={**body, "stream": False})
        answer = first.json()
        message = (
            answer["choices"][0]["message"] if path == CHAT else {"role": "assistant", "content": answer["content"]}
        )
        more = [*body["messages"], message, {"role": "user", "content": "on"}]
        return first.status_code, (await client.post(path, json={**body, "messages": more})).status_code

    assert served(test, says(f"<tool_call>{ODD[odd]}</tool_call>")) == (200, 200)


def test_an_address_that_cannot_be_used_is_told():
    with pytest.raises(ValueError, match="cannot listen on"):
        Gateway(host="192.0.2.1")


def test_what_the_models_api_says_is_passed_on():
    async def ask(messages, room):
        return Response("cut", finish_reason="length")

    assert post(CHAT, GO, TextChat(ask)).json()["choices"][0]["finish_reason"] == "length"


def levels_of(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels_of, inner), default=0)


@given(JSON, st.integers(0, 5))
def test_the_levels_of_a_body_are_counted(value, levels):
    assert deeper(value, levels) == (levels_of(value) > levels)
