"""Attention within rows without padding: row by row, and in one launch as a GPU computes it."""

import math

import pytest
from sweep import thinned

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM, Qwen2Config  # noqa: E402

from agentgym_rl.engine.platform import attention  # noqa: E402

SIZES = [7, 1, 12, 4]


def as_torch_has_it(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None, window_size, **grouped):
    """``torch.nn.attention.varlen.varlen_attn`` in its own words, for any device."""
    assert cu_seq_q.dtype == torch.int32 and torch.equal(cu_seq_q, cu_seq_k)
    assert max_q == max_k == int(cu_seq_q.diff().max()) and window_size[1] == 0
    assert grouped in ({}, {"enable_gqa": True})
    left, rows = window_size[0], []
    key, value = (part.repeat_interleave(query.shape[1] // part.shape[1], 1) for part in (key, value))
    for begin, end in zip(cu_seq_q.tolist(), cu_seq_q.tolist()[1:], strict=False):
        q, k, v = (part[begin:end].transpose(0, 1) for part in (query, key, value))
        back = torch.arange(end - begin)[:, None] - torch.arange(end - begin)
        seen = (back >= 0) & ((back <= left) if left >= 0 else True)
        scores = (q @ k.transpose(1, 2) * (scale or 1 / math.sqrt(q.shape[-1]))).masked_fill(~seen, -math.inf)
        rows.append((scores.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(rows)


@pytest.fixture
def kernel(monkeypatch):
    """Rows are handed to a kernel; returns how often."""
    calls = []

    def counted(*arguments, **named):
        calls.append(arguments)
        return as_torch_has_it(*arguments, **named)

    monkeypatch.setattr(attention, "varlen_attn", counted)
    monkeypatch.setattr(attention, "has_kernel", lambda value: True)
    attention._grouped.cache_clear()
    yield calls
    attention._grouped.cache_clear()


def parts(heads=4, of_keys=2, width=8):
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(1, n, sum(SIZES), width, generator=draw).requires_grad_() for n in (heads, of_keys, of_keys)]


def ends():
    return torch.tensor([0, *SIZES]).cumsum(0)


@pytest.mark.parametrize("window", [None, 1, 5, 100])
@pytest.mark.parametrize("scaling", [None, 0.7])
def test_one_launch_is_as_row_by_row(kernel, window, scaling):
    values_and_gradients = []
    for attend in (attention.attend, attention.attend_at_once):
        query, key, value = inputs = parts()
        out, _ = attend(
            torch.nn.Module(), query, key, value, None, cu_seq_lens_q=ends(), max_length_q=max(SIZES), scaling=scaling,
            sliding_window=window,
        )  # fmt: skip
        values_and_gradients.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    assert len(kernel) == 1 and values_and_gradients[0][0].shape == (1, sum(SIZES), 4, 8)
    assert all(torch.allclose(value, other, atol=1e-5) for value, other in zip(*values_and_gradients, strict=True))


@pytest.mark.parametrize("attend", [attention.attend, attention.attend_at_once])
def test_rows_begin_where_positions_do(kernel, attend):
    positions = torch.cat([torch.arange(size) for size in SIZES])[None]
    by_ends, _ = attend(torch.nn.Module(), *parts(), None, cu_seq_lens_q=ends())
    by_positions, _ = attend(torch.nn.Module(), *parts(), None, position_ids=positions)
    assert torch.equal(by_ends, by_positions)
    with pytest.raises(ValueError, match="need cu_seq_lens_q or position_ids"):
        attend(torch.nn.Module(), *parts(), None)


def test_queries_in_the_precision_of_the_weights_are_rounded_for_the_kernel(kernel):
    """As autocast leaves them after positions were put in."""
    query, key, value = parts()
    out, _ = attention.attend_at_once(
        torch.nn.Module(), query, key, value.detach().bfloat16(), None, cu_seq_lens_q=ends()
    )
    assert {part.dtype for part in kernel[0][:3]} == {out.dtype} == {torch.bfloat16}


def test_where_there_is_no_kernel_it_goes_row_by_row():
    assert not attention.has_kernel(parts()[2]), "on a CPU"
    query, key, value = parts()
    by_row, _ = attention.attend(torch.nn.Module(), query, key, value, None, cu_seq_lens_q=ends())
    at_once, _ = attention.attend_at_once(torch.nn.Module(), query, key, value, None, cu_seq_lens_q=ends())
    assert torch.equal(by_row, at_once)


@pytest.mark.parametrize(
    ("width", "dtype", "capability", "has"),
    [
        (64, torch.bfloat16, (9, 0), True),
        (64, torch.float32, (9, 0), False),
        (60, torch.bfloat16, (9, 0), False),
        (264, torch.bfloat16, (9, 0), False),
        (64, torch.bfloat16, (7, 5), False),
    ],
)
def test_what_flash_attention_has_kernels_for(width, dtype, capability, has, monkeypatch):
    class OnGpu:
        is_cuda, device, shape = True, "cuda", (3, 2, width)

    OnGpu.dtype = dtype
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert attention.has_kernel(OnGpu()) is has


@pytest.mark.parametrize("name", ["softcap", "s_aux"])
@pytest.mark.parametrize("attend", [attention.attend, attention.attend_at_once])
def test_what_is_not_computed_is_refused(kernel, attend, name):
    with pytest.raises(ValueError, match=f"attention with {name} is not computed without padding"):
        attend(torch.nn.Module(), *parts(), None, cu_seq_lens_q=ends(), **{name: 50.0})


@pytest.mark.parametrize("recomputed", thinned([True, False], 2))
def test_a_model_has_one_launch_a_layer(kernel, recomputed):
    """With and without gradient checkpointing, through sliding windows of some layers; gradients are the same."""
    shape = Qwen2Config(
        vocab_size=64, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=32, use_sliding_window=True, sliding_window=5, max_window_layers=1,
    )  # fmt: skip
    rows = {"cu_seq_lens_q": ends(), "max_length_q": max(SIZES), "use_cache": False}
    positions = torch.cat([torch.arange(size) for size in SIZES])[None]
    gradients = []
    for name in ("packed", "varlen"):
        torch.manual_seed(0)
        network = AutoModelForCausalLM.from_config(shape, attn_implementation=name).train()
        if recomputed:
            network.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        network(torch.arange(sum(SIZES))[None], position_ids=positions, **rows).logits.square().mean().backward()
        gradients.append([weight.grad for weight in network.parameters()])
    assert len(kernel) == 3 * (1 + recomputed)
    assert all(torch.allclose(value, other, atol=1e-6) for value, other in zip(*gradients, strict=True))
