"""Rows without padding and logits where a loss reads them give what verl's own engines give; without Ray."""

import os
from threading import Thread
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept, thinned

os.environ.setdefault("VERL_PLATFORM", "cpu")
torch = pytest.importorskip("torch")
pytest.importorskip("verl")

import torch.distributed as dist  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    AutoModelForTokenClassification,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
)
from verl.utils import tensordict_utils as tu  # noqa: E402
from verl.utils.torch_functional import entropy_from_logits  # noqa: E402
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead  # noqa: E402

from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY  # noqa: E402
from agentgym_rl.algorithms.losses.dpo import Preference, PreferenceConfig  # noqa: E402
from agentgym_rl.algorithms.losses.vanilla import Vanilla, VanillaConfig  # noqa: E402
from agentgym_rl.algorithms.rows import Row, imitation  # noqa: E402
from agentgym_rl.engine.platform.compiled import compile_layers  # noqa: E402
from agentgym_rl.engine.platform.packed_engines import PackedLanguageModel, PackedValueModel  # noqa: E402
from agentgym_rl.engine.platform.packing import TokenLogProbs, entropy_of, predicting  # noqa: E402
from agentgym_rl.engine.verl.fields import LOSS_WEIGHT  # noqa: E402
from agentgym_rl.engine.verl.updates import OBSERVATION_WEIGHT, row_batch, row_loss  # noqa: E402
from agentgym_rl.rollout.supervised import Example  # noqa: E402

SIZE = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "tie_word_embeddings": True, "pad_token_id": 0,
}  # fmt: skip
CONFIGS = {
    "llama": LlamaConfig(**SIZE),
    "qwen2": Qwen2Config(**SIZE),
    "mistral": MistralConfig(**SIZE, sliding_window=4),
}


def engine(kind, module):
    """verl's engine around a bare model, as far as a forward step needs it."""
    made = object.__new__(kind)
    made.module, made._autocast_dtype, made.use_ulysses_sp, made.pad_to_length = module, torch.float32, False, False
    made.engine_config = SimpleNamespace(
        entropy_checkpointing=False, entropy_from_logits_with_chunking=False, use_torch_compile=False
    )  # fmt: skip
    made.ulysses_sequence_parallel_size, made.get_data_parallel_size = 1, lambda: 1
    made.get_data_parallel_group = lambda: None
    return made


def model(name, implementation, auto=AutoModelForCausalLM):
    torch.manual_seed(0)
    network = auto.from_config(CONFIGS[name], attn_implementation=implementation)
    return network.train()


def jagged(rows):
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def policy_rows(prompts=(3, 1, 6), responses=(9, 4, 2), temperature=1.0):
    """Rows of a policy update: random tokens, masks, advantages, weights of observations."""
    draw = torch.Generator().manual_seed(1)

    def rows(lengths, make):
        return jagged([make(length) for length in lengths])

    def uniform(length):
        return torch.rand(length, generator=draw)

    ids = [torch.randint(1, 50, (p + r,), generator=draw) for p, r in zip(prompts, responses, strict=True)]
    mask = jagged([torch.ones(r, dtype=torch.int64) - (torch.arange(r) % 3 == 1).long() for r in responses])
    off = jagged([1 - row for row in mask.unbind()])
    data = TensorDict(
        {
            "input_ids": jagged(ids),
            "position_ids": jagged([torch.arange(len(row)) for row in ids]),
            "prompts": jagged([row[:p] for row, p in zip(ids, prompts, strict=True)]),
            "responses": jagged([row[p:] for row, p in zip(ids, prompts, strict=True)]),
            "response_mask": mask,
            "loss_mask": mask,
            "old_log_probs": rows(responses, lambda length: -4 * uniform(length)),
            "advantages": rows(responses, lambda length: uniform(length) - 0.5),
            LOSS_WEIGHT: uniform(len(responses)),
            OBSERVATION_WEIGHT: jagged([0.1 * (row * (torch.arange(len(row)) > 2)) for row in off.unbind()]),
        },
        batch_size=len(prompts),
    )
    tu.assign_non_tensor(data, temperature=temperature, dp_size=1, batch_num_tokens=9, calculate_entropy=True)
    return data


def policy(model_output, data, dp_group=None):
    return row_loss(model_output, data, dp_group, loss=Vanilla(VanillaConfig(entropy=0.1)))


PREFERENCE = Preference(PreferenceConfig())
EXAMPLES = [Example([7, 8, 9, 3], [0.0, 1.0, 0.0, 1.0]), Example([4, 5], [0.0, 0.5]), Example([4, 5, 1], [0.0] * 3)]


def supervised_rows():
    data = row_batch([imitation(example) for example in EXAMPLES], CROSS_ENTROPY, 3, 1.0, 9)
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=5)
    return data


def preference_rows(pairs=1):
    rows = [Row(EXAMPLES[place], {}) for place in (0, 1, 1, 0)][: 2 * pairs]
    data = row_batch(rows, PREFERENCE, 2 * pairs, 1.0, 9)
    data["old_log_probs"] = jagged([torch.linspace(-2, -1, len(row.segment.input_ids) - 1) for row in rows])
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=5)
    return data


def preference(model_output, data, dp_group=None):
    return row_loss(model_output, data, dp_group, loss=PREFERENCE)


def supervised(model_output, data, dp_group=None):
    return row_loss(model_output, data, dp_group, loss=CROSS_ENTROPY)


def trained(kind, implementation, name, data, loss, packed):
    """Loss, metrics and gradients of one step."""
    network = model(name, implementation)
    tu.assign_non_tensor(data, use_remove_padding=packed)
    value, output = engine(kind, network).forward_step(data, loss, forward_only=False)
    value.backward()
    metrics = {key: float(value.aggregate()) for key, value in output["metrics"].items()}
    return float(value.detach()), metrics, {key: weight.grad for key, weight in network.named_parameters()}


def outputs(kind, network, data, dtype=torch.float32):
    """What an engine hands to a policy's loss, and the loss."""
    output = {}

    def read(model_output, data, dp_group=None):
        output.update(model_output)
        return policy(model_output, data)

    made = engine(kind, network)
    made._autocast_dtype, made.compute_entropy_from_logits = dtype, entropy_from_logits
    loss, _ = made.forward_step(data, read, forward_only=False)
    return output, loss


@pytest.mark.parametrize("name", thinned(CONFIGS, 3))
@pytest.mark.parametrize(
    ("make", "loss"),
    [
        (policy_rows, policy),
        (lambda: policy_rows(temperature=0.7), policy),
        (supervised_rows, supervised),
        (preference_rows, preference),
    ],
    ids=["policy", "cooler", "supervised", "preference"],
)
def test_losses_and_gradients_are_those_of_verls_padded_engine(make, loss, name):
    value, metrics, gradients = trained(PackedLanguageModel, "packed", name, make(), loss, packed=True)
    other, stock, expected = trained(FSDPEngineWithLMHead, "sdpa", name, make(), loss, packed=False)
    assert value == pytest.approx(other, rel=1e-5)
    assert metrics == pytest.approx(stock, rel=1e-5, abs=1e-7)
    assert all(torch.allclose(gradients[key], gradient, rtol=1e-4, atol=1e-7) for key, gradient in expected.items())


def test_verls_own_settings_still_work():
    """As in docs/verl.md: padded rows, all logits."""
    ours = trained(PackedLanguageModel, "sdpa", "llama", policy_rows(), policy, packed=False)
    stock = trained(FSDPEngineWithLMHead, "sdpa", "llama", policy_rows(), policy, packed=False)
    assert ours[:2] == stock[:2]


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(("make", "loss"), [(policy_rows, policy), (lambda: preference_rows(2), preference)])
def test_a_row_longer_than_a_micro_batch_is_one_by_itself(group, make, loss):
    """And the gradient is that of one micro-batch with all rows."""
    by_most = {}
    for most in (1, 1000):
        data, sizes = make(), []
        network = model("llama", "packed")
        fully_shard(network, mesh=init_device_mesh("cpu", (1,)), reshard_after_forward=False)
        made = engine(PackedLanguageModel, network)

        def measured(model_output, data, dp_group, sizes=sizes):
            sizes.append(data["input_ids"].offsets().diff().tolist())
            return loss(model_output, data)

        tu.assign_non_tensor(data, use_remove_padding=True, use_dynamic_bsz=True, max_token_len_per_gpu=most)
        made.forward_backward_batch(data, measured)
        gradients = {key: weight.grad.full_tensor() for key, weight in network.named_parameters()}
        by_most[most] = sizes, gradients
    assert len(by_most[1][0]) > len(by_most[1000][0]) == 1
    assert all(torch.allclose(made, by_most[1][1][key], rtol=1e-4, atol=1e-7) for key, made in by_most[1000][1].items())


def test_a_pass_without_gradients_leaves_the_weights_in_their_place(group):
    """Those that are put in the place of others afterwards are what an update then changes."""
    network = model("llama", "packed")
    fully_shard(network, mesh=init_device_mesh("cpu", (1,)), reshard_after_forward=False)
    made = engine(PackedLanguageModel, network)
    data = policy_rows()
    tu.assign_non_tensor(data, use_remove_padding=True, use_dynamic_bsz=True, max_token_len_per_gpu=1000)
    made.forward_backward_batch(data, None, forward_only=True)
    assert all(isinstance(weight, DTensor) for weight in network.parameters())


def test_values_are_those_of_verls_padded_engine():
    def values(kind, implementation, packed):
        network = model("llama", implementation, AutoModelForTokenClassification).eval()
        data = policy_rows()
        tu.assign_non_tensor(data, use_remove_padding=packed)
        return engine(kind, network).forward_step(data, None, True)[1]["model_output"]["values"].values()

    ours, stock = values(PackedValueModel, "packed", True), values(FSDPEngineWithValueHead, "sdpa", False)
    assert torch.allclose(ours, stock, atol=1e-6)


def test_logits_are_computed_before_the_tokens_that_a_loss_reads():
    data = policy_rows(prompts=(2, 1), responses=(3, 2))
    read = [2, 4, 5 + 1]  # the mask of responses is 1, 0, 1, and of the second row 1, 0
    data[OBSERVATION_WEIGHT] = jagged([torch.zeros(3), torch.zeros(2)])
    assert predicting(data).tolist() == [place - 1 for place in read]
    data[OBSERVATION_WEIGHT] = jagged([torch.zeros(3), torch.tensor([0.0, 0.5])])
    assert predicting(data).tolist() == [1, 3, 5, 6]
    sft = supervised_rows()
    assert predicting(sft).tolist() == [0, 2, 4]


def test_a_micro_batch_of_padding_has_a_gradient_of_zero():
    data = row_batch([imitation(EXAMPLES[2])], CROSS_ENTROPY, 1, 1.0, 9)
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=5)
    value, _, gradients = trained(PackedLanguageModel, "packed", "llama", data, supervised, packed=True)
    assert value == 0 and all(not gradient.any() for gradient in gradients.values())


def test_an_entropy_that_is_only_logged_has_no_gradient():
    data = policy_rows()
    tu.assign_non_tensor(data, calculate_entropy=False, entropy_is_logged=True, use_remove_padding=True)
    output, _ = outputs(PackedLanguageModel, model("llama", "packed"), data)
    assert not output["entropy"].requires_grad and output["log_probs"].requires_grad


PRECISIONS = {torch.float32: 1e-5, torch.bfloat16: 0.05}
"""And how much log-probabilities and entropies may differ, in nats; those of bfloat16 are rounded by verl's engine."""


@pytest.mark.parametrize("attention", ["packed", "varlen"])
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_numbers_are_those_of_verls_engine_on_gpus(dtype, attention, temperature):
    """Its rows lie one behind the other, too; in bfloat16 ours are the nearer ones to float32."""
    by_engine, tolerance = {}, PRECISIONS[dtype]
    for name, kind, implementation, precision in (
        ("ours", PackedLanguageModel, attention, dtype),
        ("verl", FSDPEngineWithLMHead, "sdpa", dtype),
        ("exact", FSDPEngineWithLMHead, "sdpa", torch.float32),
    ):
        network = model("qwen2", implementation).bfloat16().to(precision)  # the same weights
        data = policy_rows(temperature=temperature)
        tu.assign_non_tensor(data, use_remove_padding=True)
        output, loss = outputs(kind, network, data, precision)
        loss.backward()
        read = predicting(data)
        gradient = torch.cat([weight.grad.flatten().float() for weight in network.parameters()])
        numbers = [output[key].values()[read].detach().float() for key in ("log_probs", "entropy")]
        by_engine[name] = *numbers, loss.detach(), gradient
        assert name != "ours" or output["log_probs"].dtype == torch.float32
    ours, of_verl, exact = by_engine["ours"], by_engine["verl"], by_engine["exact"]
    for mine, theirs in zip(ours[:3], of_verl[:3], strict=True):
        assert torch.allclose(mine.float(), theirs.float(), atol=tolerance, rtol=tolerance)
    size = exact[3].norm()
    assert (ours[3] - of_verl[3]).norm() / size <= tolerance
    assert (ours[0] - exact[0]).abs().mean() <= (of_verl[0] - exact[0]).abs().mean() + 1e-6
    assert (ours[3] - exact[3]).norm() / size <= (of_verl[3] - exact[3]).norm() / size + tolerance / 10


@settings(deadline=None, max_examples=swept(25))
@given(tokens=st.integers(1, 600), scale=st.floats(0.01, 50))
def test_log_probs_and_entropies(tokens, scale):
    """Of more tokens than a chunk holds, too."""
    draw = torch.Generator().manual_seed(tokens)
    logits = (scale * torch.randn(tokens, 11, generator=draw, dtype=torch.float64)).requires_grad_()
    labels = torch.randint(11, (tokens,), generator=draw)
    weights = torch.randn(tokens, generator=draw, dtype=torch.float64)
    expected = logits.log_softmax(-1).gather(1, labels.unsqueeze(1)).squeeze(1)
    log_probs = TokenLogProbs.apply(logits, labels)
    assert torch.allclose(log_probs, expected)
    (gradient,) = torch.autograd.grad((log_probs * weights).sum(), logits)
    assert torch.allclose(gradient, torch.autograd.grad((expected * weights).sum(), logits)[0])
    assert torch.allclose(entropy_of(logits), torch.distributions.Categorical(logits=logits).entropy())


@pytest.mark.slow
@pytest.mark.parametrize("tempered", [False, True])
def test_compiled_log_probs_and_entropies(tempered):
    """Also where the backward pass runs in a thread of its own, as autograd's of a GPU does."""
    draw = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(70, 500, generator=draw)).bfloat16().requires_grad_()
    labels, weights = torch.randint(500, (70,), generator=draw), torch.randn(70, generator=draw)
    temperature = torch.full((70,), 0.7) if tempered else None
    plain, faster = (TokenLogProbs.apply(logits, labels, temperature, faster) for faster in (False, True))
    torch.testing.assert_close(plain, faster)
    (expected,) = torch.autograd.grad((plain * weights).sum(), logits)
    thread = Thread(target=(faster * weights).sum().backward)
    thread.start()
    thread.join()
    torch.testing.assert_close(logits.grad, expected)
    torch.testing.assert_close(entropy_of(logits, temperature, faster=True), entropy_of(logits, temperature))


@pytest.mark.slow
def test_compiled_layers():
    """Values and gradients, for rows of any number; names of the weights stay."""
    plain, faster = model("qwen2", "packed"), model("qwen2", "packed")
    assert compile_layers(faster) == 2 and list(plain.state_dict()) == list(faster.state_dict())
    for tokens in (9, 14, 30):
        ids, ends = torch.arange(tokens)[None] % 50, torch.tensor([0, tokens // 3, tokens])
        inputs = {
            "input_ids": ids,
            "position_ids": ids * 0 + torch.arange(tokens),
            "cu_seq_lens_q": ends,
            "use_cache": False,
        }
        logits, expected = faster(**inputs).logits, plain(**inputs).logits
        torch.testing.assert_close(logits, expected)
        logits.square().sum().backward()
        expected.square().sum().backward()
    for ours, theirs in zip(faster.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_log_probs_of_rounded_logits_are_not_rounded_again():
    logits = (5 * torch.randn(300, 4096, generator=torch.Generator().manual_seed(0))).bfloat16().requires_grad_()
    labels = torch.arange(300)
    exact = logits.detach().float().requires_grad_()
    log_probs, expected = TokenLogProbs.apply(logits, labels), TokenLogProbs.apply(exact, labels)
    assert log_probs.dtype == torch.float32 and torch.equal(log_probs, expected)
    (gradient,) = torch.autograd.grad(log_probs.sum(), logits)
    assert torch.equal(gradient, torch.autograd.grad(expected.sum(), exact)[0].bfloat16())
    assert torch.equal(entropy_of(logits), entropy_of(exact))
