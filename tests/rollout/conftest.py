"""A real tokenizer, and verl's builder on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from chats import TEXTS


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory):
    pytest.importorskip("verl")
    from transformers import AutoTokenizer

    from agentgym_rl.engine.recipe.config import TinyModelConfig
    from agentgym_rl.engine.run import tiny

    model = TinyModelConfig(vocabulary=300, width=16, layers=1, heads=1, kv_heads=1, mlp=16)
    folder: Path = tiny.build(tmp_path_factory.mktemp("tiny") / "model", model, TEXTS, seed=0)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def builder(tokenizer):
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    from agentgym_rl.rollout.builder import faithful

    return faithful(create_continuous_token_builder(tokenizer, hf_model_type="qwen2", chat_template_kwargs={}))
