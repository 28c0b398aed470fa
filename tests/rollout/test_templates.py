"""Chat templates of model families, by their structure: what grows is what they render, or the run is refused."""

import copy
import re
from dataclasses import replace
from pathlib import Path

import encoded
import pytest

pytest.importorskip("verl")

from chats import TEMPLATES, chat_of
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from agentgym_rl.data.agenttraj import Trajectory
from agentgym_rl.engine.recipe.preflight import check_template
from agentgym_rl.engine.recipe.schema import RecipeError
from agentgym_rl.rollout import growth
from agentgym_rl.rollout.builder import faithful
from agentgym_rl.rollout.template import drops_thinking

ASKED = [{"role": "user", "content": "Count to 3."}]
SAID = [*ASKED, {"role": "assistant", "content": "say 1"}, {"role": "user", "content": "Right."}]
FAMILIES = ("qwen2", "llama", "mistral", "granite", "lfm2", "phi3", "nemotron_h", "never heard of")


def plain(chat, family):
    """verl's own builder for a model type."""
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    return create_continuous_token_builder(chat.tokenizer, hf_model_type=family, chat_template_kwargs={})


def followed(chat, builder=None, response="say 1"):
    """The text of an episode: the first prompt, a response that the model did not write and the next observation."""
    builder = builder or chat.builder
    ids = builder.build_initial_tokens(ASKED)
    ids = builder.merge_assistant_tokens(ids, chat.reply(response)).token_ids
    return chat.tokenizer.decode(builder.merge_context_tokens(SAID[:2], SAID, ids).token_ids)


def demonstration(chat, *responses):
    """The text with loss of each response, and all of the text."""
    messages = [*ASKED]
    for response in responses:
        messages += [{"role": "assistant", "content": response}, {"role": "user", "content": "Right."}]
    loss = tuple(True if message["role"] == "assistant" else None for message in messages)
    example = encoded.whole(
        Trajectory("counter_2", tuple(messages[:-1]), loss[:-1]), chat.tokenizer, chat.builder, 10_000
    )
    learnt = [token for token, weight in zip(example.input_ids, example.loss_weight, strict=True) if weight]
    return chat.tokenizer.decode(learnt), chat.tokenizer.decode(example.input_ids)


SAME = [*(name for name in TEMPLATES if name != "qwen3_opened"), "mistral", "granite", "phi", "glm"]


@pytest.mark.parametrize("name", SAME)
def test_an_observation_follows_a_response_as_the_template_says(name):
    chat = chat_of(name)
    check_template(chat.builder)
    assert followed(chat) == chat.render(SAID)


@pytest.mark.parametrize("family", FAMILIES)
def test_chatml_keeps_its_line_break_whatever_the_model_type(family):
    chat = chat_of("chatml")
    builder = plain(chat, family)
    if family != "qwen2":
        assert "say 1<|im_end|><|im_start|>" in followed(chat, builder), "what is repaired"
    check_template(builder)
    assert followed(chat, builder) == chat.render(SAID)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="<>|[]"), max_size=40)


@given(observations=st.lists(TEXT, min_size=1, max_size=4), name=st.sampled_from(SAME))
def test_any_observation_is_what_the_template_renders(observations, name):
    chat, messages = chat_of(name), [*ASKED]
    ids = chat.builder.build_initial_tokens(messages)
    for text in observations:
        ids = chat.builder.merge_assistant_tokens(ids, chat.reply("say 1")).token_ids
        before = [*messages, {"role": "assistant", "content": "say 1"}]
        messages = [*before, {"role": "user", "content": text}]
        ids = chat.builder.merge_context_tokens(before, messages, ids).token_ids
    assert ids == chat.ids(messages)


@pytest.mark.parametrize("name", SAME)
def test_a_response_that_was_cut_gets_the_end_of_its_turn(name):
    chat = chat_of(name)
    ids = chat.builder.merge_assistant_tokens(chat.builder.build_initial_tokens(ASKED), chat.reply("say 1")[:-1])
    grown = chat.builder.merge_context_tokens(SAID[:2], SAID, ids.token_ids).token_ids
    assert chat.tokenizer.decode(grown) == chat.render(SAID)


@pytest.mark.parametrize(
    ("name", "prompt", "closing"),
    [
        ("qwen3_opened", "<|im_start|>assistant\n<think>\n", "\n</think>\n\n"),
        ("r1", "<assistant><think>\n", "\n</think>\n\n"),
        ("nemotron", "<|im_start|>assistant\n<think>\n", "</think>"),
        ("glm", "<assistant>", "\n<think></think>\n"),
    ],
)
def test_a_demonstration_closes_the_thought_that_the_prompt_opens(name, prompt, closing):
    chat = chat_of(name)
    check_template(chat.builder)
    end = chat.tokenizer.decode([chat.end])
    learnt, text = demonstration(chat, "say 1", "say 2")
    assert learnt == "".join(f"{closing}{response}{end}" for response in ("say 1", "say 2")), "also learnt"
    assert text.count(f"{prompt}{closing}say") == 2


def test_a_demonstrations_own_thought_is_opened_once():
    chat = chat_of("qwen3_opened")
    for thought in ("<think>\nhm\n</think>\n\nsay 1", "\nhm\n</think>\n\nsay 1".lstrip()):
        _, text = demonstration(chat, thought)
        assert text == chat.render(ASKED) + "hm\n</think>\n\nsay 1<|im_end|>"
    _, text = demonstration(chat_of("glm"), "<think>hm</think>\nsay 1")
    assert text.endswith("<assistant>\n<think>hm</think>\nsay 1<user>")


def test_a_turn_that_ends_in_two_tokens_ends_once():
    chat = chat_of("cohere")
    check_template(chat.builder)
    first = chat.tokenizer.convert_tokens_to_ids("<|eot_id|>")
    ids_of_reply = chat.tokenizer.encode("say 1")
    for response in ([*ids_of_reply, first, chat.end], [*ids_of_reply, first], ids_of_reply):
        ids = chat.builder.merge_assistant_tokens(chat.builder.build_initial_tokens(ASKED), response).token_ids
        assert chat.builder.merge_context_tokens(SAID[:2], SAID, ids).token_ids == chat.ids(SAID)


def test_r1_opens_the_thinking_of_each_response():
    chat = chat_of("r1")
    assert followed(chat).count("<assistant><think>\n") == 2
    assert followed(chat).endswith("say 1<end_of_sentence><user>Right.<assistant><think>\n")
    assert drops_thinking(chat.builder), "rollout.thinking=strip has an effect"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gpt_oss", r"renders '.*<assistant>final.*' where an episode has '.*<assistant>Thought"),
        ("nemo", r"in the compact wording .*renders '<user>Count to 3\..* where an episode has '<user>You play\."),
        ("vicuna", r"renders '.*say 1\\n.*' where an episode has '.*say 1<end_of_sentence>"),
        ("gemma", r"cannot render an episode in the compact wording \(System role not supported\)"),
        ("base", r"cannot render an episode .*chat_template is not set"),
    ],
)
def test_what_cannot_be_repaired_is_refused_with_both_texts(name, says):
    with pytest.raises(RecipeError, match=f"(?s){says}.*models.md.*custom_chat_template"):
        check_template(chat_of(name).builder)


def test_the_template_that_the_page_on_models_prescribes():
    page = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
    recipe = OmegaConf.create(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    tokenizer = copy.deepcopy(chat_of("mistral").tokenizer)
    tokenizer.chat_template = recipe.verl.actor_rollout_ref.model.custom_chat_template
    chat = replace(chat_of("mistral"), tokenizer=tokenizer)
    for family in FAMILIES[1:]:
        check_template(builder := plain(chat, family))
        assert followed(chat, builder) == chat.render(SAID)


@pytest.mark.parametrize("name", ["gemma", "nemo"])
def test_only_the_wording_of_the_run_counts(name):
    chat = chat_of(name)
    check_template(chat.builder, ["agentgym"])
    assert followed(chat) == chat.render(SAID)


def test_verls_builders_differ_where_the_table_says_repaired():
    def repairs(name, family):
        return growth.repairs(faithful(plain(chat_of(name), family)))

    assert repairs("chatml", "qwen2") == []
    assert repairs("chatml", "llama") == [r"'\n' after a response"]
    assert repairs("mistral", "mistral") == ["an observation only after a response"]
    assert repairs("r1", "llama") == [r"'\n</think>\n\n' before a response without a thought"]


def test_a_templates_arguments_reach_every_prompt():
    chat = chat_of("qwen3")
    silent = faithful(type(chat.builder)(chat.tokenizer, chat_template_kwargs={"enable_thinking": False}))
    empty = "<think>\n\n</think>\n\n"
    check_template(silent)
    assert chat.tokenizer.decode(silent.build_initial_tokens(ASKED)).endswith(f"assistant\n{empty}")
    ids = silent.merge_assistant_tokens(silent.build_initial_tokens(ASKED), chat.reply("say 1")).token_ids
    assert chat.tokenizer.decode(silent.merge_context_tokens(SAID[:2], SAID, ids).token_ids).count(empty) == 2
    assert empty not in chat.tokenizer.decode(chat.builder.build_initial_tokens(ASKED)), "others keep their own"
