"""Norms in one pass give what transformers' own give."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM, Gemma2Config, LlamaConfig, Qwen3Config  # noqa: E402

from agentgym_rl.engine.platform.norms import fuse_norms  # noqa: E402

SIZE = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 4, "intermediate_size": 24, "pad_token_id": 0,
}  # fmt: skip


@pytest.mark.parametrize(("shape", "norms"), [(LlamaConfig(**SIZE), 5), (Qwen3Config(**SIZE), 9)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_logits_and_gradients(shape, norms, dtype, tolerance):
    outputs = []
    for fused in (True, False):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(shape).to(dtype)
        assert not fused or fuse_norms(model) == norms
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
            logits = model(torch.arange(1, 20)[None]).logits
        logits.square().mean().backward()
        outputs.append([logits, *(weight.grad for weight in model.parameters())])
    for norm, other in zip(*outputs, strict=True):
        assert norm.dtype == other.dtype
        assert (norm - other).norm() <= tolerance * other.norm()


def test_a_norm_of_two_precisions_is_that_of_transformers():
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZE))
    norm, values = model.model.norm.bfloat16(), torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    expected = norm(values)
    fuse_norms(model)
    assert torch.equal(norm(values), expected) and expected.dtype == torch.float32


def test_norms_of_other_models_stay_as_they_are():
    """Gemma's scale by one more than their weight."""
    assert fuse_norms(AutoModelForCausalLM.from_config(Gemma2Config(**SIZE))) == 0
