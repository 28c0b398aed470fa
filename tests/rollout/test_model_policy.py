"""A model in this process, with the exact tokens it sampled."""

import asyncio
import os
import shutil

import pytest

torch = pytest.importorskip("torch")

from transformers import AutoTokenizer  # noqa: E402

from agentgym_rl.envs import Task, make  # noqa: E402
from agentgym_rl.rollout.policies.model import TransformersModel  # noqa: E402
from agentgym_rl.rollout.settings import RolloutSettings  # noqa: E402

pytestmark = pytest.mark.usefixtures("toys")


@pytest.fixture
def folder(tokenizer):
    return tokenizer.name_or_path


def test_greedy_tokens_and_their_log_probabilities_are_the_models(folder):
    model = TransformersModel(folder, temperature=0, seed=0)
    prompt = model.tokenizer.encode("Count to 3.")
    made = asyncio.run(model.generate(request_id="a", prompt_ids=prompt, sampling_params={"max_tokens": 5}))
    with torch.inference_mode():
        logits = model.model(torch.tensor([prompt + made.token_ids])).logits[0].log_softmax(-1)
    expected = logits[len(prompt) - 1 : -1]
    assert made.token_ids == expected.argmax(-1).tolist()
    assert made.log_probs == pytest.approx(expected.max(-1).values.tolist(), abs=1e-4)
    assert (model.usage.calls, model.usage.completion_tokens) == (1, 5)


def test_the_same_seed_samples_the_same(folder):
    def sampled(seed):
        model = TransformersModel(folder, temperature=1, seed=seed)
        return asyncio.run(model.generate(request_id="a", prompt_ids=[5, 6], sampling_params={"max_tokens": 8}))

    assert sampled(1) == sampled(1)
    assert sampled(1) != sampled(2)


def test_an_episode_runs(folder):
    settings = RolloutSettings(style="compact", max_turns=2, max_new_tokens=4)
    policy = TransformersModel(folder, temperature=1, seed=0)
    episode = asyncio.run(policy.run(make("counter", style="compact"), Task("counter", 2), settings))
    assert len(episode.turns) == 2 and episode.ending.counts
    assert policy.usage.calls == 2 and episode.response_tokens > 0


def test_a_model_may_be_named_otherwise(folder):
    assert TransformersModel(folder, temperature=0, seed=0, name="runs/a:bc").name == "runs/a:bc"


def test_weights_are_known_by_their_files_and_in_the_cache_by_their_name(folder, tmp_path, monkeypatch):
    def weights(place):
        return TransformersModel(str(place), temperature=0, seed=0).weights

    monkeypatch.setenv("AGENTGYM_RL_CACHE", str(tmp_path / "cache"))
    own, exported = tmp_path / "own", tmp_path / "cache" / "exports" / "demo-global_step_4-0123"
    for place in (own, exported):
        shutil.copytree(folder, place)
    before = weights(own)
    assert before == weights(own) != ""
    os.utime(own / "model.safetensors", ns=(1, 1))
    assert weights(own) != before
    assert weights(exported) == "demo-global_step_4-0123"


def test_what_is_no_model_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty has no config\.json; it is not a Hugging Face model folder"):
        TransformersModel(str(tmp_path / "empty"), temperature=1, seed=0)


def test_a_template_that_renders_episodes_in_another_way_is_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = (
        "{% for one in messages %}{% if one.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "{{ one.content + eos_token }}{% endfor %}"
    )
    tokenizer.save_pretrained(tmp_path / "model")
    TransformersModel(str(tmp_path / "model"), temperature=0, seed=0, style="agentgym")
    with pytest.raises(ValueError, match=r"in the compact wording \(no system\)"):
        TransformersModel(str(tmp_path / "model"), temperature=0, seed=0, style="compact")


def test_an_episodes_seed_decides_what_is_drawn_whatever_was_drawn_before(folder):
    def sampled(*seeds):
        model = TransformersModel(folder, temperature=1, seed=0)
        parameters = [{"max_tokens": 8, "seed": seed} for seed in seeds]
        return [
            asyncio.run(model.generate(request_id="a", prompt_ids=[5, 6], sampling_params=sampling))
            for sampling in parameters
        ]

    first, second = sampled(1, 2)
    assert sampled(2) == [second] and sampled(2, 1) == [second, first]
    assert first.token_ids != second.token_ids


def test_a_context_without_room_is_told(folder):
    with pytest.raises(ValueError, match="too few for prompts of 9000 and responses of 9000"):
        TransformersModel(folder, temperature=0, seed=0, prompt_tokens=9000, response_tokens=9000)
