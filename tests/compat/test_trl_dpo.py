"""The losses of preferences against TRL's DPO: the same model, reference and pairs give the same loss and gradient."""

from pathlib import Path

import pytest

from agentgym_rl.algorithms.losses.base import Tokens
from agentgym_rl.algorithms.losses.dpo import Preference, PreferenceConfig
from agentgym_rl.algorithms.losses.reward import REFERENCE_STREAM, ImplicitReward

BETA = 0.3
WORDS = ("<eos>", "<pad>", "go", "left", "right", "up", "down", "look")
PAIRS = [
    {"prompt": "go", "chosen": " left up", "rejected": " right"},
    {"prompt": "go look", "chosen": " up", "rejected": " down down left"},
    {"prompt": "look", "chosen": " right right up", "rejected": " left up"},
]


def trainer_of(folder: Path):
    """TRL's trainer of a tiny model, whose reference has other weights."""
    import torch
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import DPOConfig, DPOTrainer

    words = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<eos>"))
    words.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>", pad_token="<pad>")
    shape = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
    )
    torch.manual_seed(0)
    model, reference = LlamaForCausalLM(shape), LlamaForCausalLM(shape)
    settings = DPOConfig(
        output_dir=str(folder), beta=BETA, per_device_train_batch_size=len(PAIRS), use_cpu=True, report_to="none",
        gradient_checkpointing=False, bf16=False,
    )  # fmt: skip
    return DPOTrainer(model, reference, settings, train_dataset=Dataset.from_list(PAIRS), processing_class=tokenizer)


def gradient(model, loss):
    import torch

    model.zero_grad()
    loss.backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


@pytest.mark.timeout(400)
def test_loss_and_gradient_are_those_of_trl(tmp_path, other):
    torch = pytest.importorskip("torch")
    other("trl")
    trainer = trainer_of(tmp_path)
    inputs = next(iter(trainer.get_train_dataloader()))
    wanted = trainer.compute_loss(trainer.model, inputs)
    slope = gradient(trainer.model, wanted)

    pairs = torch.arange(2 * len(PAIRS)).view(2, -1).T.flatten()  # TRL has the preferred rows first, then the others
    ids, mask = inputs["input_ids"][pairs], inputs["completion_mask"][pairs].bool()

    def log_probs(model):
        logits = model(input_ids=ids, attention_mask=inputs["attention_mask"][pairs]).logits[:, :-1]
        return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)

    with torch.no_grad():
        reference, unread = log_probs(trainer.ref_model), torch.full_like(mask[:, 1:], -7.0, dtype=torch.float32)
    for loss, old, streams in (
        (Preference, reference, {}),
        (ImplicitReward, unread, {REFERENCE_STREAM: reference}),
    ):
        own = log_probs(trainer.model)
        tokens = Tokens(log_prob=own, old_log_prob=old, mask=mask[:, 1:], streams=streams)
        found = loss(PreferenceConfig(beta=BETA))(tokens).mean()
        assert found.item() == pytest.approx(wanted.item(), rel=1e-5)
        assert torch.allclose(gradient(trainer.model, found), slope, rtol=1e-4, atol=1e-7) and slope.norm() > 1e-3
