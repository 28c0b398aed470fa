"""Real clients of the gateway: OpenAI's and Anthropic's own."""

import asyncio
import re
from pathlib import Path

import pytest
from gateways import CHAT, opened, says, served

from agentgym_rl.api.policies import closing
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs import make
from agentgym_rl.envs.core import Task
from agentgym_rl.rollout.gateway.texts import chat_of
from agentgym_rl.rollout.harness.policy import HarnessPolicy
from agentgym_rl.rollout.harness.settings import Harness
from agentgym_rl.rollout.policies.scripted import Function
from agentgym_rl.rollout.settings import RolloutSettings

ROOT = Path(__file__).parents[2]
EXAMPLE, PAGE = ROOT / "examples/gateway_agent.py", ROOT / "docs/gateway.md"
CALL = 'I look. <tool_call>{"name": "look", "arguments": {"at": 1}}</tool_call>'
PARAMETERS = {"type": "object", "properties": {"at": {"type": "integer"}}}


def with_client(test, chat, **limits):
    """What a blocking function of base URL and key gives, called beside the gateway."""

    async def run():
        async with opened(chat, **limits) as (session, _, gateway):
            return await asyncio.to_thread(test, gateway.address(session), session.key), session

    return asyncio.run(run())


def test_openais_client_plays_a_conversation_with_tools():
    openai = pytest.importorskip("openai", reason="pip install openai")

    def test(url, key):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=key)
        tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
        messages = [{"role": "user", "content": "go"}]
        first = client.chat.completions.create(model="policy", messages=messages, tools=tools)
        message = first.choices[0].message
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "a wall"}
        messages += [message, result]
        stream = client.chat.completions.create(model="policy", messages=messages, tools=tools, stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="policy", messages=messages)
        listed = [model.id for model in client.models.list()]
        return message.tool_calls[0].function.arguments, text, refused.value.code, listed

    result, session = with_client(test, says(CALL, "done"), max_turns=2)
    assert result == ('{"at": 1}', "done", "turn_limit", ["policy"])
    assert [len(messages) for messages in session.shown] == [1, 1], "the second request goes on from the first"


def test_openais_client_reads_a_stream_with_calls():
    openai = pytest.importorskip("openai", reason="pip install openai")

    def test(url, key):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=key)
        tools = [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}]
        body = {"model": "policy", "messages": [{"role": "user", "content": "go"}], "tools": tools}
        with client.chat.completions.stream(**body, stream_options={"include_usage": True}) as stream:
            kinds = {event.type for event in stream}
            completion = stream.get_final_completion()
        call = completion.choices[0].message.tool_calls[0]
        return kinds, completion.choices[0].finish_reason, completion.usage.total_tokens, call.function.arguments

    (kinds, *rest), _ = with_client(test, says(CALL, counted=(9, 4)))
    assert "tool_calls.function.arguments.done" in kinds and rest == ["tool_calls", 13, '{"at": 1}']


def test_openais_client_does_not_repeat_what_has_failed():
    openai = pytest.importorskip("openai", reason="pip install openai")
    requests = []

    class Failing:
        segments, weights = (), ()

        async def sample(self, request, room):
            requests.append(request)
            raise OSError("gone")

    def test(url, key):
        with pytest.raises(openai.InternalServerError, match="the model failed"):
            openai.OpenAI(base_url=f"{url}/v1", api_key=key).chat.completions.create(
                model="policy", messages=[{"role": "user", "content": "go"}]
            )

    with_client(test, Failing())
    assert len(requests) == 1


@pytest.mark.slow
def test_anthropics_client_plays_a_conversation_with_tools():
    anthropic = pytest.importorskip("anthropic", reason="pip install anthropic")

    def test(url, key):
        client = anthropic.Anthropic(base_url=url, api_key=key)
        tools = [{"name": "look", "input_schema": PARAMETERS}]
        messages = [{"role": "user", "content": "go"}]
        with client.messages.stream(model="policy", max_tokens=50, messages=messages, tools=tools) as stream:
            first = stream.get_final_message()
        call = next(block for block in first.content if block.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "a wall"}
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        with client.messages.stream(model="policy", max_tokens=50, messages=messages, tools=tools) as stream:
            text = "".join(stream.text_stream)
            reason = stream.get_final_message().stop_reason
        return first.stop_reason, call.input, text, reason

    result, _ = with_client(test, says(CALL, "done"))
    assert result == ("tool_use", {"at": 1}, "done", "end_turn")


def test_what_is_learned_has_the_log_probabilities_with_which_a_real_model_sampled_it(tokenizer):
    """A conversation with a retry and an edit over HTTP; the model reads its segments again."""
    torch = pytest.importorskip("torch")
    from agentgym_rl.rollout.policies.model import TransformersModel

    model = TransformersModel(tokenizer.name_or_path, temperature=1, seed=3)

    async def test(session, client, _):
        start = [{"role": "user", "content": "Count to 3."}]

        async def ask(messages):
            response = await client.post(CHAT, json={"messages": messages, "max_tokens": 8})
            return response.json()["choices"][0]["message"]

        first, _ = await ask(start), await ask(start)
        second = await ask([*start, first, {"role": "user", "content": "Right."}])
        edited = {**first, "content": "Action: say 1"}
        await ask([*start, edited, {"role": "user", "content": "Right."}, second, {"role": "user", "content": "So?"}])
        return session.chat.segments

    segments = served(test, chat_of(model, seed=5))
    assert len(segments) == 3
    for segment in segments:
        with torch.inference_mode():
            logits = model.model(torch.tensor([segment.ids])).logits[0, len(segment.prompt_ids) - 1 : -1]
        log_probs = logits.float().log_softmax(-1)[range(len(segment.response_ids)), segment.response_ids].tolist()
        sampled = [place for place, mask in enumerate(segment.response_mask) if mask]
        assert [log_probs[place] for place in sampled] == pytest.approx(
            [segment.log_probs[place] for place in sampled], abs=1e-4
        )


def test_the_agent_of_the_page_is_the_example():
    (begin,) = re.findall(r'^--8<-- "examples/gateway_agent.py:(\d+):"$', PAGE.read_text(), re.MULTILINE)
    *head, last, _ = EXAMPLE.read_text().splitlines()[: int(begin) - 1]
    assert head and last == '"""'
    assert len(list(filter(str.strip, EXAMPLE.read_text().splitlines()[int(begin) - 1 :]))) <= 20


@pytest.mark.slow
def test_the_example_solves_a_task_with_a_model_that_knows_how():
    pytest.importorskip("openai", reason="pip install openai")
    env = make("maze", steps="1-4")
    task = Task("maze", env.spec.splits["test"][0])
    ways = [move.removeprefix("move ") for move in env.oracle(task)]
    model = Function(lambda messages: ways[len(messages) // 2 - 5])  # behind a system message and four rounds
    policy = HarnessPolicy(Harness(command=["python", str(EXAMPLE)]), model)
    episode = asyncio.run(closing(policy, policy.run(env, task, RolloutSettings(retries=0))))
    assert (episode.ending, episode.success, len(episode.turns)) == (Ending.TERMINATED, True, len(ways))
