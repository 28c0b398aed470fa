"""A language model small enough for a CPU: tokenizer and random weights, built from a run's environments and seed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from agentgym_rl.data.files import put_whole
from agentgym_rl.data.panels import draw
from agentgym_rl.engine.recipe.config import TinyModelConfig
from agentgym_rl.engine.recipe.digest import digest
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.envs.core import OracleUnavailable
from agentgym_rl.rollout.conversation import Scripted
from agentgym_rl.rollout.loop import run_attempt
from agentgym_rl.rollout.policies.scripted import OracleScript
from agentgym_rl.rollout.pretrained.writing import writing

IM_START, IM_END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML, the format that verl's Continuous Token builder for Qwen extends turn by turn."""

RECIPE = "recipe.json"
"""File in a model's folder with the recipe that it was built by."""

FIRST_OBSERVATIONS, CONVERSATIONS = 400, 100
"""Texts of each environment that the tokenizer is trained on."""


async def corpus(run: Resolved, bar: Callable[[str, int, int], None] = lambda *_: None) -> list[str]:
    """Texts of the run's environments: first observations of training tasks, and conversations of the oracle.

    Args:
        bar: is told what is played, how many tasks are done, and of how many.
    """
    texts: list[str] = []
    for name, pool in run.pools.items():
        env, tasks = run.open(name), draw(pool, name, FIRST_OBSERVATIONS, seed=0)
        for number, task in enumerate(tasks):
            bar(f"tiny model: texts of {name}", number, len(tasks))
            texts.append((await env.reset(task)).text)
            if number % (FIRST_OBSERVATIONS // CONVERSATIONS) == 0:
                with suppress(OracleUnavailable):
                    commands, thoughts = env.oracle(task), env.thoughts(task)
                    oracle = Scripted(OracleScript(commands, env, run.rules.action_format, thoughts))
                    max_turns = min(len(commands), env.spec.max_turns)
                    episode = await run_attempt(env, task, oracle, run.rules, max_turns)
                    texts += [message["content"] for message in episode.messages]
                    texts.append(episode.turns[-1].observation)
        await env.close()
    return texts


def home(run: Resolved, folder: Path) -> Path:
    """Where the tiny model of a run is: in its own folder, or in the cache it shares with others."""
    config = run.config
    if config.run.cache is None:
        return folder / "model"
    return Path(config.run.cache).resolve() / f"model-{digest(config, cloned=False)}"


def build(folder: Path, model: TinyModelConfig, texts: Iterable[str], seed: int) -> Path:
    """Write tokenizer, configuration and random weights as a Hugging Face folder; a finished folder is kept.

    The same recipe, texts and seed give the same files.
    """
    import torch
    from tokenizers import models, pre_tokenizers, trainers
    from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    if folder.is_dir():
        return folder
    core = Qwen2Tokenizer().backend_tokenizer  # splits text as it will when loaded by the model's type
    core.model = models.BPE()
    core.train_from_iterator(
        [*texts, "system\nuser\nassistant\n" * 100],
        trainers.BpeTrainer(
            vocab_size=model.vocabulary,
            special_tokens=[PAD, IM_START, IM_END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=IM_END, pad_token=PAD, additional_special_tokens=[IM_START, IM_END, PAD]
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    architecture = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=model.width,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        num_key_value_heads=model.kv_heads,
        intermediate_size=model.mlp,
        max_position_embeddings=model.context,
        rope_theta=10000.0,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Qwen2ForCausalLM(architecture)
    network.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    with writing(folder):
        tokenizer.save_pretrained(unfinished)
        network.save_pretrained(unfinished)
    recipe = {"seed": seed, **asdict(model), "parameters": sum(p.numel() for p in network.parameters())}
    (unfinished / RECIPE).write_text(json.dumps(recipe, indent=2) + "\n")
    put_whole(unfinished, folder)
    return folder
