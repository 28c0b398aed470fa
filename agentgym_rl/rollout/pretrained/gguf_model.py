"""From a GGUF file of a Llama to the files of a Hugging Face model."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from agentgym_rl.rollout.pretrained.writing import writing

TEMPLATE = (
    "{% for message in messages %}"
    "{% if not loop.first %}{{ '\\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '\\n<|im_start|>assistant\\n' }}{% endif %}"
)
"""ChatML without a default system message; the line break between two messages belongs to the second one."""

CONTROL = 3
"""GGUF's type of tokens that are marks."""


def convert(file: Path, out: Path) -> str:
    """Write weights (float32), configuration, tokenizer and chat template; returns the digest of the weights.

    float32 holds the values of the quantised file as they are, where bfloat16 would round them, and it is what a CPU
    computes with.

    Raises:
        ModuleNotFoundError: the package ``gguf`` is not installed.
    """
    import gguf
    import torch
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype=torch.float32)
    with writing(out):
        network.save_pretrained(out)
    fields = gguf.GGUFReader(file).fields
    tokenizer(
        {name.rpartition(".")[2]: field.contents() for name, field in fields.items() if name.startswith("tokenizer.")}
    ).save_pretrained(out)
    return digest(network)


def digest(network: Any) -> str:
    """SHA-256 over the names, shapes and float32 values of a model's weights, whatever file they are in."""
    hash_ = hashlib.sha256()
    for name, tensor in sorted(network.named_parameters()):
        hash_.update(f"{name} {list(tensor.shape)}\n".encode())
        hash_.update(tensor.detach().float().contiguous().numpy().data)
    return hash_.hexdigest()


def tokenizer(facts: dict[str, Any]) -> Any:
    """The tokenizer that a GGUF file describes: byte-level BPE in which each digit is a token, as SmolLM's.

    transformers' own reader of GGUF tokenizers swaps the ends of a Llama's texts (``eos_token`` is ``<|im_start|>``)
    and does not split digits.

    Args:
        facts: its fields ``tokenizer.ggml.*``, by their last word.

    Raises:
        ValueError: the file describes a tokenizer of another kind.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    kind = (facts["model"], facts["pre"])
    if kind != ("gpt2", "smollm"):
        raise ValueError(f"the tokenizer is of the kind {kind}; only ('gpt2', 'smollm') is known")
    tokens = facts["tokens"]
    merges = [tuple(pair.split(" ")) for pair in facts["merges"]]
    core = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    core.decoder = decoders.ByteLevel()
    marks = [token for token, kind in zip(tokens, facts["token_type"], strict=True) if kind == CONTROL]
    core.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in marks])
    names = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    made = PreTrainedTokenizerFast(
        tokenizer_object=core,
        clean_up_tokenization_spaces=False,
        **{f"{short}_token": tokens[facts[f"{long}_token_id"]] for long, short in names.items()},
    )
    made.chat_template = TEMPLATE
    return made
