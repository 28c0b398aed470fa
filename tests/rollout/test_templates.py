"""Chat templates of model families, by their structure: what is trained, and what is refused before Ray starts."""

import pytest

pytest.importorskip("verl")

from chats import chat_of

from agentgym_rl.engine.recipe.compose import RecipeError
from agentgym_rl.engine.recipe.preflight import check_template
from agentgym_rl.rollout.builder import remembering
from agentgym_rl.rollout.template import drops_thinking

ASKED = [{"role": "user", "content": "Count to 3."}]
SAID = [*ASKED, {"role": "assistant", "content": "say 1"}, {"role": "user", "content": "Right."}]


def followed(chat):
    """The text of an episode: the first prompt, a response and the observation that follows it."""
    ids = chat.builder.build_initial_tokens(ASKED)
    ids = chat.builder.merge_assistant_tokens(ids, chat.reply("say 1")).token_ids
    return chat.tokenizer.decode(chat.builder.merge_context_tokens(SAID[:2], SAID, ids).token_ids)


@pytest.mark.parametrize("name", ["chatml", "smollm2", "qwen3", "llama"])
def test_an_observation_follows_a_response_as_the_template_says(name):
    chat = chat_of(name)
    check_template(chat.builder)
    assert followed(chat) == chat.render(SAID)


def test_r1_opens_the_thinking_of_each_response():
    chat = chat_of("r1")
    check_template(chat.builder)
    assert followed(chat).count("<assistant><think>\n") == 2
    assert followed(chat).endswith("say 1<end_of_sentence><user>Right.<assistant><think>\n")
    assert drops_thinking(chat.builder), "rollout.thinking=strip has an effect"


@pytest.mark.parametrize("name", ["gemma", "mistral"])
def test_templates_whose_roles_must_alternate_are_refused(name):
    says = r"cannot render an observation after a response \(.*(alternate|System role).*models\.md"
    with pytest.raises(RecipeError, match=says):
        check_template(chat_of(name).builder)


def test_a_templates_arguments_reach_every_prompt():
    chat = chat_of("qwen3")
    silent = remembering(type(chat.builder)(chat.tokenizer, chat_template_kwargs={"enable_thinking": False}))
    empty = "<think>\n\n</think>\n\n"
    assert chat.tokenizer.decode(silent.build_initial_tokens(ASKED)).endswith(f"assistant\n{empty}")
    ids = silent.merge_assistant_tokens(silent.build_initial_tokens(ASKED), chat.reply("say 1")).token_ids
    assert chat.tokenizer.decode(silent.merge_context_tokens(SAID[:2], SAID, ids).token_ids).count(empty) == 2
    assert empty not in chat.tokenizer.decode(chat.builder.build_initial_tokens(ASKED)), "others keep their own"
