"""Small tokenizers with chat templates of the kinds in use, trained in a moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from agentgym_rl.rollout.pretrained.gguf_model import TEMPLATE as SMOLLM2

TEXTS = ["Thought:\nNext.\n\nAction:\nsay 1", "Action: say 2", "Count to 3.", "Right.", "I do not understand."] * 20
"""What the tokenizers of these tests are trained on."""

CHATML = """\
{%- for one in messages %}{{ '<|im_start|>' + one.role + '\\n' + one.content + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

LLAMA = """\
{{- bos_token }}
{%- for one in messages %}
{{- '<|start_header_id|>' + one.role + '<|end_header_id|>\\n\\n' + one.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

QWEN3 = """\
{%- set asked = namespace(last=0) %}
{%- for one in messages %}{% if one.role == 'user' %}{% set asked.last = loop.index0 %}{% endif %}{% endfor %}
{%- for one in messages %}
{%- set said = one.content %}
{%- if one.role == 'assistant' %}
{%- set answer = said.split('</think>')[-1].lstrip('\\n') %}
{%- set thought = said.split('</think>')[0].split('<think>')[-1].strip('\\n') if '</think>' in said else '' %}
{%- set said = '<think>\\n' + thought + '\\n</think>\\n\\n' + answer if loop.index0 > asked.last else answer %}
{%- endif %}
{{- '<|im_start|>' + one.role + '\\n' + said + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"""
"""Drops the thinking of responses that a user's message follows."""

GEMMA = """\
{{- bos_token }}
{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for one in messages %}
{%- if (one.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}
{{- '<start_of_turn>' + ('model' if one.role == 'assistant' else one.role) }}
{{- '\\n' + one.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""
"""No system message, and roles that alternate."""

MISTRAL = """\
{{- bos_token }}
{%- set turns = messages[1:] if messages[0].role == 'system' else messages %}
{%- if messages[0].role == 'system' %}{{ '[SYSTEM_PROMPT]' + messages[0].content + '[/SYSTEM_PROMPT]' }}{% endif %}
{%- for one in turns %}
{%- if (one.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}
{{- '[INST]' + one.content + '[/INST]' if one.role == 'user' else one.content + eos_token }}
{%- endfor %}"""
"""Roles that alternate after a system message."""

R1 = """\
{{- bos_token }}
{%- for one in messages %}{% if one.role == 'system' %}{{ one.content }}{% endif %}{% endfor %}
{%- for one in messages %}
{%- if one.role == 'user' %}{{ '<user>' + one.content }}{% endif %}
{%- if one.role == 'assistant' %}
{{- '<assistant>' + one.content.split('</think>')[-1] + '<end_of_sentence>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant><think>\\n' }}{% endif %}"""
"""Opens the thinking of each response, and drops that of earlier ones."""

NEMOTRON = """\
{%- for one in messages %}
{%- set said = one.content %}
{%- if one.role == 'assistant' %}{% set said = '<think></think>' + said.split('</think>')[-1] | trim %}{% endif %}
{{- '<|im_start|>' + one.role + '\\n' + said + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"""
"""Opens the thinking of each response, and shows an empty thought, written in another way, in all of them."""

GLM = """\
{%- for one in messages %}
{%- set said = one.content %}
{%- if one.role == 'assistant' %}
{%- set thought = said.split('</think>')[0].split('<think>')[-1] | trim if '</think>' in said and loop.last else '' %}
{%- set said = '<think>' + thought + '</think>\\n' + said.split('</think>')[-1] | trim %}
{%- endif %}
{{- '<' + one.role + '>\\n' + said }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"""
"""Puts an empty thought before earlier responses, and leaves the end of a turn to the next message."""

GRANITE = """\
{%- for one in messages %}
{{- '<|start_header_id|>' + one.role + '<|end_header_id|>' + one.content + '<|eot_id|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>' }}{% endif %}"""
"""A line break after the end of each turn."""

PHI = GRANITE + "{% if not add_generation_prompt %}{{ eos_token }}{% endif %}"
"""Puts the end of a text after a conversation."""

COHERE = """\
{%- for one in messages %}
{{- '<user>' + one.content + '<end_of_turn>' if one.role != 'assistant'
    else '<assistant>' + one.content + '<|eot_id|><end_of_turn>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"""
"""Two tokens end a response."""

GPT_OSS = """\
{%- for one in messages %}
{%- if one.role == 'assistant' %}
{{- '<assistant>final<|end_header_id|>' + one.content + ('<end_of_sentence>' if loop.last else '<end_of_turn>') }}
{%- else %}{{ '<' + one.role + '>' + one.content + '<end_of_turn>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"""
"""Responses have channels, and the last one ends in another way."""

NEMO = """\
{%- set first = messages[0].content if messages[0].role == 'system' else '' %}
{%- for one in messages if one.role != 'system' %}
{%- if one.role == 'user' %}{{ '<user>' + (first if loop.last else '') + one.content }}
{%- else %}{{ '<assistant>' + one.content + eos_token }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"""
"""Moves the system message to the last message of the user."""

VICUNA = """\
{%- for one in messages %}{{ one.role + ': ' + one.content + '\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"""
"""Nothing ends a turn."""

TEMPLATES = {
    "smollm2": (SMOLLM2, "llama", "<|im_end|>"),
    "chatml": (CHATML, "qwen2", "<|im_end|>"),
    "llama": (LLAMA, "llama", "<|eot_id|>"),
    "qwen3": (QWEN3, "qwen3", "<|im_end|>"),
    "qwen3_opened": (QWEN3.replace("assistant\\n' }}", "assistant\\n<think>\\n' }}"), "qwen3", "<|im_end|>"),
}
"""Template, model type and end of turn. The last one begins each response with ``<think>`` itself."""

OTHERS = {
    "gemma": (GEMMA, "gemma2", "<end_of_turn>"),
    "mistral": (MISTRAL, "mistral", "<end_of_sentence>"),
    "r1": (R1, "qwen2", "<end_of_sentence>"),
    "nemotron": (NEMOTRON, "nemotron_h", "<|im_end|>"),
    "glm": (GLM, "other", "<user>"),
    "granite": (GRANITE, "granite", "<|eot_id|>"),
    "phi": (PHI, "phi3", "<|eot_id|>"),
    "cohere": (COHERE, "cohere", "<end_of_turn>"),
    "gpt_oss": (GPT_OSS, "gpt_oss", "<end_of_sentence>"),
    "nemo": (NEMO, "mistral", "<end_of_sentence>"),
    "vicuna": (VICUNA, "llama", "<end_of_sentence>"),
    "base": (None, "llama", "<end_of_sentence>"),
}
"""Templates that verl's builders do not follow, and one that is missing."""

MARKS = [
    "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|bos|>", "<|pad|>",
    "<start_of_turn>", "<end_of_turn>", "<user>", "<assistant>", "<end_of_sentence>",
    "[INST]", "[/INST]",
]  # fmt: skip


@dataclass(frozen=True)
class Chat:
    name: str
    tokenizer: Any
    builder: Any
    end: int

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)

    def ids(self, messages: Sequence[dict[str, str]]) -> list[int]:
        return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)

    def reply(self, text: str) -> list[int]:
        return [*self.tokenizer.encode(text, add_special_tokens=False), self.end]


@cache
def chat_of(name: str, hidden: bool = False) -> Chat:
    """A chat with a vocabulary of about 300; ``hidden`` makes the marks of thinking tokens that texts do not show."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    from agentgym_rl.rollout.builder import faithful

    template, model_type, end = (TEMPLATES | OTHERS)[name]
    core = Tokenizer(models.BPE())
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=350, special_tokens=MARKS, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<|bos|>", eos_token=end, pad_token="<|pad|>", chat_template=template,
        additional_special_tokens=MARKS, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.add_tokens([AddedToken(mark, special=hidden) for mark in ("<think>", "</think>")], special_tokens=hidden)
    builder = create_continuous_token_builder(tokenizer, hf_model_type=model_type, chat_template_kwargs={})
    return Chat(name, tokenizer, faithful(builder), tokenizer.convert_tokens_to_ids(end))
