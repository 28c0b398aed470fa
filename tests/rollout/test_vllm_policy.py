"""A local model on vLLM: what can be told without the engine, and the engine itself."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("vllm")

from agentgym_rl.engine.recipe.config import TinyModelConfig
from agentgym_rl.engine.run import tiny
from agentgym_rl.rollout.policies.vllm import VllmModel


@pytest.fixture
def folder(tokenizer):
    return tokenizer.name_or_path


def test_the_engine_starts_with_the_first_request_only(folder):
    model = VllmModel(folder, temperature=0, seed=0, cpu=True)
    assert model.context == 768 and model.usage.calls == 0
    asyncio.run(model.close())


def test_a_context_too_small_is_told(folder):
    with pytest.raises(ValueError, match="768 tokens, too few for prompts of 9000 and responses of 1000"):
        VllmModel(folder, temperature=0, seed=0, prompt_tokens=9000, response_tokens=1000)
    assert VllmModel(folder, temperature=0, seed=0, prompt_tokens=400, response_tokens=200).context == 600


def test_what_is_no_model_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no config\.json; it is not a Hugging Face model folder"):
        VllmModel(str(tmp_path), temperature=0, seed=0)


ENGINE = """
import asyncio, json, sys
from agentgym_rl.api.policies import local_model
from agentgym_rl.rollout.policies import ModelOptions
from agentgym_rl.rollout.policies.model import TransformersModel
from agentgym_rl.rollout.policies.vllm import VllmModel

async def sampled(model, order):
    async def play(number):
        made = await model.generate(
            request_id=f"{number}", prompt_ids=[5, 6, 7 + number], sampling_params={"max_tokens": 8, "seed": number}
        )
        return number, made.token_ids, made.log_probs
    return sorted(await asyncio.gather(*[play(number) for number in order]))

async def both(folder):
    limits = {"prompt_tokens": 100, "response_tokens": 100}
    local_model(folder, ModelOptions(temperature=0, **limits), "vllm")  # sets the engine's variables
    found = {}
    greedy = VllmModel(folder, temperature=0, seed=0, cpu=True, **limits)
    found["greedy"] = await sampled(greedy, range(4))
    await greedy.close()
    drawn = VllmModel(folder, temperature=1, seed=0, cpu=True, **limits)
    found["drawn"] = await sampled(drawn, range(4))
    found["again"] = await sampled(drawn, [3, 1, 2, 0])
    found["alone"] = [one for number in range(4) for one in await sampled(drawn, [number])]
    found["calls"] = drawn.usage.calls
    await drawn.close()
    found["reference"] = await sampled(TransformersModel(folder, temperature=0, seed=0), range(4))
    return found

if __name__ == "__main__":
    print("FOUND " + json.dumps(asyncio.run(both(sys.argv[1]))))
"""


@pytest.mark.e2e
@pytest.mark.timeout(900)
def test_vllm_agrees_with_transformers_and_with_itself(tmp_path):
    shape = TinyModelConfig(vocabulary=300, width=64, layers=1, heads=2, kv_heads=1, mlp=64)  # vLLM's heads are 32 wide
    folder = tiny.build(tmp_path / "model", shape, ["Action: say 2", "Count to 3."] * 20, seed=0)
    script = tmp_path / "engine.py"
    script.write_text(ENGINE)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
        env=environment,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    found = json.loads(lines[0].removeprefix("FOUND "))
    for (_, tokens, log_probs), (_, expected, known) in zip(found["greedy"], found["reference"], strict=True):
        assert tokens == expected
        assert log_probs == pytest.approx(known, abs=1e-3)
    tokens = [[generated[1] for generated in found[name]] for name in ("drawn", "again", "alone")]
    assert tokens[0] == tokens[1] == tokens[2]
    assert tokens[0] != [generated[1] for generated in found["greedy"]]
    assert found["calls"] == 12
