"""TRL's ``environment_factory``: without TRL its contract, with TRL its trainer."""

import inspect
import json
import typing
from dataclasses import replace
from pathlib import Path

import pytest
import toy

from agentgym_rl.compat.trl import environment_factory, rows
from agentgym_rl.envs import available, make
from agentgym_rl.envs.core import EnvUnavailable, MissingExtra, TaskNotFound
from agentgym_rl.envs.tools import to_call, tool_of


def tools(kind):
    """The methods that TRL offers to the model: every public one but two."""
    return {
        name: method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if name not in ("reset", "get_reward") and not name.startswith("_")
    }


def kinds(schema):
    """JSON's types of a parameter; null has a key of its own in transformers' schemas."""
    found = {schema["type"]} if isinstance(schema["type"], str) else {*schema["type"]}
    return found | ({"null"} if schema.get("nullable") else set())


@pytest.mark.timeout(400)  # the first imports torch
@pytest.mark.parametrize("name", available())
def test_the_schemas_of_the_tools_are_those_of_the_environment(name):
    get_json_schema = pytest.importorskip("transformers.utils").get_json_schema
    try:
        kind, spec = environment_factory(name), make(name).spec
    except MissingExtra as error:
        pytest.skip(str(error))
    found = {tool: get_json_schema(getattr(kind(), tool))["function"] for tool in tools(kind)}
    if not spec.tools:
        assert [*found] == ["act"] and [*found["act"]["parameters"]["properties"]] == ["action"]
        return
    assert {*found} == {tool.name for tool in spec.tools}
    for tool in spec.tools:
        ours, theirs = tool.schema["function"]["parameters"], found[tool.name]["parameters"]
        assert found[tool.name]["description"] == tool.description
        assert {*theirs["properties"]} == {*ours["properties"]}
        assert {*theirs.get("required", [])} == {*ours["required"]}
        for parameter, schema in ours["properties"].items():
            left_out = {"null"} if parameter in tool.optional else set()
            assert kinds(theirs["properties"][parameter]) == kinds(schema) | left_out, (tool.name, parameter)
            if all(isinstance(choice, str) for choice in schema.get("enum", [])):
                assert theirs["properties"][parameter].get("enum") == schema.get("enum")


@pytest.mark.parametrize("name", ["textcraft", "maze", "wordle", "weather", "sqlgym"])
def test_calls_of_the_oracle_earn_the_reward(name):
    env = environment_factory(name)()
    [task, *_] = rows(name, "train")
    assert isinstance(env.reset(**task), str) and env.get_reward() == 0
    for command in env._env.oracle(task["item_id"]):
        tool, arguments = to_call(env._env.spec.tools, command)
        seen = getattr(env, tool)(**arguments)
        assert isinstance(seen, str)
    assert env.get_reward() == pytest.approx(1.0)
    assert getattr(env, tool)(**arguments) == "The episode is over." and env.get_reward() == pytest.approx(1.0)
    env.reset(**task)
    assert env.get_reward() == 0


def test_a_call_that_fits_no_tool_is_an_observation():
    env = environment_factory("maze")()
    assert env.move("up") == "The episode is over."
    env.reset("maze_0")
    assert env.move("sideways").startswith("Error: move: argument 'direction': 'sideways' is not one of")
    with pytest.raises(TypeError):
        env.move(speed=3)


@pytest.mark.parametrize("error", [EnvUnavailable("gone"), KeyError("a bug")])
def test_a_failure_of_the_environment_has_no_reward(toys, monkeypatch, error):
    env = environment_factory("counter", hurry=True)()
    assert [*tools(type(env))] == ["act"] and env._env.env.hurry
    env.reset(item_id="counter_1", prompt=[], environment="counter")

    async def failing(self, action):
        raise error

    monkeypatch.setattr(toy.Counter, "_step", failing)
    with pytest.raises(type(error)):
        env.act("say 1")
    assert env.get_reward() is None and env.act("say 1") == "The episode is over."
    monkeypatch.setattr(toy.Counter, "_reset", failing)
    env._failed = False
    with pytest.raises(type(error)):
        env.reset(item_id="counter_2")
    assert env.get_reward() is None
    monkeypatch.undo()


def test_rows_are_the_tasks_of_a_split():
    found = rows("textcraft", "test", style="compact")
    assert len(found) == 100 and {row["environment"] for row in found} == {"textcraft"}
    assert found[0]["prompt"][0]["content"].startswith(make("textcraft").spec.instructions["compact"])
    with pytest.raises(ValueError, match="no split 'dev'; its splits: train"):
        rows("textcraft", "dev")
    with pytest.raises(ValueError, match="style=verl_agent has no instruction to begin with"):
        rows("webshop", "test", style="verl_agent")
    with pytest.raises(TaskNotFound):
        environment_factory("textcraft")().reset("textcraft_x")


def test_alternatives_in_the_schemas_of_a_server_keep_their_types(toys, monkeypatch):
    """Servers in Python describe an optional number so."""
    whole = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    schema = {"type": "object", "properties": {"n": whole, "m": {"oneOf": [{"type": "number"}, {"type": "array"}]}}}
    described = replace(make("counter").spec, tools=(tool_of("add", "Add.", {**schema, "required": ["m"]}),))
    monkeypatch.setattr(toy.Counter, "spec", described)
    hints = typing.get_type_hints(environment_factory("counter").add)
    assert hints == {"n": int | None, "m": float | list[typing.Any], "return": str}


def test_the_hints_are_those_that_transformers_reads():
    method = environment_factory("babyai" if "babyai" in available() else "maze").move_forward
    assert typing.get_type_hints(method) == {"return": str}


@pytest.mark.timeout(500)
def test_trls_trainer_trains_on_an_environment(other, toys, tmp_path, monkeypatch):
    """With answers that are given: two steps, in which half of the episodes count to the end."""
    trl, datasets = other("trl"), other("datasets")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from agentgym_rl.engine.recipe.config import TinyModelConfig
    from agentgym_rl.engine.run.tiny import build

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    size = TinyModelConfig(
        vocabulary=400, width=16, layers=1, heads=2, kv_heads=1, mlp=16, prompt_tokens=2000, response_tokens=2000
    )
    folder = build(tmp_path / "model", size, ["say 1"], seed=0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates/qwen3.jinja").read_text()

    class Trainer(trl.GRPOTrainer):
        def _generate_single_turn(self, prompt_ids, *arguments, **named):
            return [tokenizer.encode(self.say(at, tokenizer.decode(ids))) for at, ids in enumerate(prompt_ids)], None

        def say(self, at, conversation):
            number = conversation.count("<tool_response>") + 1
            if "Done." in conversation or "Wrong." in conversation:
                return "That is all.<|im_end|>"
            number += 5 * (conversation.count("Count to 2") and at % 2)
            call = {"name": "act", "arguments": {"action": f"say {number}"}}
            return f"<tool_call>\n{json.dumps(call)}\n</tool_call><|im_end|>"

    model = AutoModelForCausalLM.from_pretrained(folder)
    before = model.state_dict()["model.embed_tokens.weight"].clone()
    trainer = Trainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=datasets.Dataset.from_list(rows("counter", "train")[1:2] * 4),  # counter_1
        environment_factory=environment_factory("counter"),
        args=trl.GRPOConfig(
            output_dir=str(tmp_path / "out"), max_steps=2, per_device_train_batch_size=4, num_generations=4,
            max_completion_length=1500, max_tool_calling_iterations=4, logging_steps=1, report_to=[], use_cpu=True,
            bf16=False, learning_rate=1e-2, save_strategy="no",
        ),
    )  # fmt: skip
    trainer.train()
    logged = [row for row in trainer.state.log_history if "reward" in row]
    assert [row["reward"] for row in logged] == [0.5, 0.5]
    assert all(row["tools/failure_frequency"] == 0 and row["tools/call_frequency"] > 0 for row in logged)
    assert (trainer.model.state_dict()["model.embed_tokens.weight"] != before).any()
