"""The update path on a GPU: the same numbers as on a CPU, and how fast it is. Needs torch and transformers only.

    python benchmarks/gpu.py [--device cuda] [--repeats 3]      # a minute, on a GPU of 80 GB
    python benchmarks/gpu.py --device cpu --tiny                # seconds; shows that the script works

First, losses, masks, advantages and DPO in float32 on the device are compared with the CPU in float64: the greatest
difference of values and gradients, as a share of the greatest value; attention in bfloat16 is compared with float32.
Then updates of a model of the shape of Qwen2.5-1.5B with random weights, as a worker alone makes them (FSDP2 computes
with bfloat16 copies of float32 weights; fused AdamW), on episodes of unequal length, 2,000 tokens on average:

packed      ours: rows behind each other, all in one launch of attention, logits only where the loss reads them
compiled    the same, with layers and log-probabilities compiled for any number of tokens
recomputed  the same with gradient checkpointing
by row      packed, attention row by row
padded      transformers as it is: rows padded to the longest, sdpa, all logits, torch's own log-softmax; recomputed,
            because otherwise it would not fit

All have the same loss and the same micro-batches. MFU counts 6 FLOPs a parameter and real token, and attention.
`--sides` chooses among them, and `--profile` prints where the time of the first one's update goes.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from random import Random
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from options import positive
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config

from agentgym_rl.algorithms.grpo import relative
from agentgym_rl.algorithms.losses.aggregation import Aggregation, token_weights
from agentgym_rl.algorithms.losses.base import Loss, Tokens
from agentgym_rl.algorithms.losses.cispo import CISPO
from agentgym_rl.algorithms.losses.clipped import ClippedConfig
from agentgym_rl.algorithms.losses.dpo import Preference, PreferenceConfig
from agentgym_rl.algorithms.losses.gspo import GSPO
from agentgym_rl.algorithms.losses.sapo import SAPO
from agentgym_rl.algorithms.losses.turn import Turn
from agentgym_rl.algorithms.losses.vanilla import Vanilla, VanillaConfig
from agentgym_rl.algorithms.ppo import turn_gae
from agentgym_rl.algorithms.step_credit import returns
from agentgym_rl.engine.platform.attention import attend, attend_at_once, has_kernel
from agentgym_rl.engine.platform.compiled import compile_layers
from agentgym_rl.engine.platform.norms import fuse_norms
from agentgym_rl.engine.platform.packing import TokenLogProbs, entropy_of, predicting

TOLERANCE = 1e-5
"""Most that float32 may differ from float64, as a share of the greatest value."""
ROUGH = 0.04
"""The same in bfloat16, with 8 bits."""
SHAPE = {
    "vocab_size": 151_936, "hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12,
    "num_key_value_heads": 2, "intermediate_size": 8960, "tie_word_embeddings": True,
}  # fmt: skip
"""Of Qwen2.5-1.5B."""
TINY = {
    "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "tie_word_embeddings": True,
}  # fmt: skip
PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12, "B200": 2250e12}
"""FLOPs a second in dense bfloat16, from the vendor's data sheets, by a part of the device's name."""
LOSSES: tuple[type[Loss[Any]], ...] = (Vanilla, GSPO, Turn, CISPO, SAPO)
CLIP = {"clip": 0.2, "clip_high": 0.28}


# the same numbers

Result = dict[str, torch.Tensor]


def leaf(rng: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def losses(place: Callable[[torch.Tensor], torch.Tensor]) -> Result:
    """Every loss on tokens with its gradient, under the advantages of several estimators and every aggregation."""
    rng, rows, tokens, turns = torch.Generator().manual_seed(0), 12, 60, 6
    log_prob, old = leaf(rng, rows, tokens), leaf(rng, rows, tokens)
    mask = (torch.rand(rows, tokens, generator=rng) < 0.6).double()
    number = torch.arange(tokens).div(tokens // turns, rounding_mode="floor").expand(rows, tokens)
    reward, values = Random(0), leaf(rng, rows, turns)
    per_turn = [[reward.random() for _ in range(turns)] for _ in range(rows)]
    estimated = {
        "grpo": [[advantage] * turns for advantage in relative([sum(rewards) for rewards in per_turn], by_std=True)],
        "gae": [
            turn_gae(rewards, value, gamma=0.9, lam=0.95)
            for rewards, value in zip(per_turn, values.tolist(), strict=True)
        ],
        "returns": [returns(rewards, 0.95) for rewards in per_turn],
    }
    result: Result = {}
    for estimator, of_turns in estimated.items():
        advantages = torch.tensor(of_turns, dtype=torch.float64).gather(1, number) * mask
        for kind in LOSSES:
            name = kind.__name__.lower()
            loss = kind(kind.Config(**(CLIP if issubclass(kind.Config, ClippedConfig) else {})))
            policy = place(0.1 * log_prob).requires_grad_()
            batch = Tokens(
                log_prob=policy, old_log_prob=place(0.1 * old), mask=place(mask).bool(),
                streams={"advantage": place(advantages), "turn": place(number.double())},
            )  # fmt: skip
            each = loss(batch)
            for aggregation in Aggregation:
                episodes, updates = [f"{row // 2}" for row in range(rows)], [row % 3 for row in range(rows)]
                of_row = torch.tensor(token_weights(mask.sum(-1).tolist(), episodes, updates, aggregation, tokens))
                weight = place(of_row).unsqueeze(-1) * place(mask)
                (gradient,) = torch.autograd.grad((each * weight).sum(), policy, retain_graph=True)
                result |= {f"{name}, {aggregation}, {estimator}": gradient, f"mask, {aggregation}": weight}
            result |= {f"{name}, {estimator}": each, f"clipped, {name}, {estimator}": loss.clipped(batch).double()}
    return result


def heads(place: Callable[[torch.Tensor], torch.Tensor]) -> Result:
    """Log-probabilities and their gradient, entropies, and attention within rows, with and without a window."""
    rng = torch.Generator().manual_seed(1)
    logits, labels = place(leaf(rng, 40, 300)).requires_grad_(), torch.randint(300, (40,), generator=rng)
    result = {}
    for how, faster in (("", False), (", compiled", logits.is_cuda)):
        log_probs = TokenLogProbs.apply(logits, labels.to(logits.device), None, faster)
        result |= {f"log-probabilities{how}": log_probs, f"entropies{how}": entropy_of(logits, faster=faster)}
        (result[f"gradient of logits{how}"],) = torch.autograd.grad(log_probs.square().sum(), logits)
    query, key, value = (place(leaf(rng, 1, number, 40, 16)).requires_grad_() for number in (4, 2, 2))
    ends = torch.tensor([0, 7, 8, 40], device=query.device)
    module = torch.nn.Module()
    for window in (None, 5):
        out, _ = attend(module, query, key, value, None, cu_seq_lens_q=ends, sliding_window=window)
        parts = torch.autograd.grad(out.square().sum(), (query, key, value))
        result |= {
            f"attention, window {window}": out,
            f"its gradient, {window}": torch.cat([part.flatten() for part in parts]),
        }
    return result


def preferences(place: Callable[[torch.Tensor], torch.Tensor]) -> Result:
    """DPO's loss, margin and gradient on pairs of episodes."""
    rng, rows, tokens = torch.Generator().manual_seed(2), 4, 12
    log_prob, old = place(leaf(rng, rows, tokens)).requires_grad_(), place(leaf(rng, rows, tokens))
    mask = place((torch.rand(rows, tokens, generator=rng) < 0.5).double()).bool()
    pairs, loss = Tokens(log_prob=log_prob, old_log_prob=old, mask=mask), Preference(PreferenceConfig(beta=0.1))
    each = loss(pairs)
    (gradient,) = torch.autograd.grad(each.sum(), log_prob)
    return {"dpo, loss": each, "dpo, margin": loss.metrics(pairs)["margin"], "dpo, gradient": gradient}


def jagged(flat: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    nested: torch.Tensor = torch.nested.nested_tensor_from_jagged(flat, ends)
    return nested


COMPARED = {"losses, masks, advantages": losses, "log-probabilities, attention": heads, "dpo": preferences}


def difference(computed: torch.Tensor, expected: torch.Tensor) -> float:
    """The greatest difference, as a share of the greatest value expected; infinite where something is no number."""
    expected = expected.detach()
    share = (computed.detach().cpu().double() - expected).abs().max() / expected.abs().max().clamp(min=1e-12)
    return float(share.nan_to_num(nan=inf))


def compare(device: str) -> bool:
    """Print what differs most of each kind; whether all is within the tolerance."""
    good = True
    for name, compute in COMPARED.items():
        expected, computed = compute(lambda tensor: tensor.clone()), compute(lambda tensor: tensor.float().to(device))
        worst = max(expected, key=lambda key: difference(computed[key], expected[key]))
        value = difference(computed[worst], expected[worst])
        good &= value <= TOLERANCE
        verdict = "equal" if value <= TOLERANCE else "DIFFERENT"
        print(f"{name}: {len(expected)} compared, {verdict}; most {value:.1e} ({worst}; tolerance {TOLERANCE:g})")
    return good & compare_attention(device)


def compare_attention(device: str) -> bool:
    """One launch for all rows against row by row, values and gradients: grouped heads, and windows."""
    draw, sizes, worst = torch.Generator().manual_seed(3), [700, 1, 64, 259], 0.0
    inputs = [torch.randn(1, heads, sum(sizes), 64, generator=draw).to(device, torch.bfloat16) for heads in (6, 2, 2)]
    rows = {"cu_seq_lens_q": torch.tensor([0, *sizes], device=device).cumsum(0).int(), "max_length_q": max(sizes)}
    for window in (None, 7, 50):
        outcomes = []
        for function, dtype in ((attend_at_once, torch.bfloat16), (attend, torch.float32)):
            parts = [tensor.to(dtype).requires_grad_() for tensor in inputs]
            out, _ = function(torch.nn.Module(), *parts, None, sliding_window=window, **rows)
            outcomes.append([out, *torch.autograd.grad(out.float().square().sum(), parts)])
        worst = max(
            worst, *(difference(tensor, expected.cpu().double()) for tensor, expected in zip(*outcomes, strict=True))
        )
    how = "one launch" if has_kernel(inputs[2]) else "row by row, for there is no kernel"
    verdict = "equal" if worst <= ROUGH else "DIFFERENT"
    print(f"attention in bfloat16, {how}: 12 compared, {verdict}; most {worst:.1e} (tolerance {ROUGH:g})")
    return worst <= ROUGH


# speed


@dataclass
class Rows:
    """A micro-batch of episodes."""

    ids: list[torch.Tensor]
    masks: list[torch.Tensor]
    """Which tokens have a loss; on the host."""
    advantages: list[float]

    @property
    def tokens(self) -> int:
        return sum(map(len, self.ids))


def micro_batches(vocabulary: int, tokens: int, longest: int, episodes: int, device: str) -> list[Rows]:
    """Episodes of unequal length in micro-batches of at most so many tokens; half of the tokens are the model's own."""
    rng, batches = Random(0), [Rows([], [], [])]
    for _ in range(episodes):
        size = rng.randrange(longest // 8, longest)
        if batches[-1].tokens + size > tokens:
            batches.append(Rows([], [], []))
        ids = torch.tensor([rng.randrange(vocabulary) for _ in range(size)], device=device)
        mask = torch.arange(size) // 100 % 2 == 1 if size > 200 else torch.arange(size) > 0
        batches[-1].ids.append(ids)
        batches[-1].masks.append(mask)
        batches[-1].advantages.append(rng.uniform(-1, 1))
    return batches


Side = Callable[[PreTrainedModel, Rows], tuple[torch.Tensor, torch.Tensor]]
"""Log-probabilities of the tokens with loss of a micro-batch, and the advantage of each."""


def packed(model: PreTrainedModel, rows: Rows, *, faster: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    ids, device, sizes = torch.cat(rows.ids), rows.ids[0].device, [len(tokens) for tokens in rows.ids]
    ends, masks = torch.tensor([0, *sizes]).cumsum(0), torch.cat(rows.masks)
    # as an engine does: what the host must know is read before the device is asked
    places = predicting({"input_ids": jagged(torch.zeros(len(masks)), ends), "loss_mask": jagged(masks.float(), ends)})
    owner = (torch.searchsorted(ends, places, right=True) - 1).to(device)
    places, on_device = places.to(device), ends.int().to(device)
    positions = torch.cat([torch.arange(size, device=device) for size in sizes])
    logits = model(
        input_ids=ids[None], position_ids=positions[None], cu_seq_lens_q=on_device, max_length_q=max(sizes),
        logits_to_keep=places, use_cache=False,
    ).logits[0]  # fmt: skip
    return TokenLogProbs.apply(logits, ids[places + 1], None, faster), advantages(rows, device)[owner]


def padded(model: PreTrainedModel, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    device = rows.ids[0].device
    ids = torch.nn.utils.rnn.pad_sequence(rows.ids, batch_first=True)
    real = torch.nn.utils.rnn.pad_sequence([torch.ones_like(tokens) for tokens in rows.ids], batch_first=True)
    masks = torch.nn.utils.rnn.pad_sequence(rows.masks, batch_first=True)
    row, place = (index.to(device) for index in masks[:, 1:].nonzero(as_tuple=True))
    logits = model(input_ids=ids, attention_mask=real, use_cache=False).logits
    log_probs = logits[:, :-1].float().log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2)
    return log_probs[row, place], advantages(rows, device)[row]


def advantages(rows: Rows, device: torch.device) -> torch.Tensor:
    return torch.tensor(rows.advantages, device=device)


SIDES: dict[str, tuple[str, bool, Side]] = {
    "packed": ("varlen", False, packed),
    "compiled": ("varlen", False, partial(packed, faster=True)),
    "recomputed": ("varlen", True, packed),
    "by row": ("packed", False, packed),
    "padded": ("sdpa", True, padded),
}
"""By name: the attention of the model, whether it recomputes, and how log-probabilities are computed."""


def build(
    device: str, shape: dict[str, int], attention: str, *, recomputed: bool, ours: bool, compiled: bool = False
) -> PreTrainedModel:
    """A model as verl's FSDP2 worker has it: float32 weights, bfloat16 copies to compute with on a GPU."""
    torch.manual_seed(0)
    config = Qwen2Config(**shape, attn_implementation=attention, pad_token_id=0)  # type: ignore[arg-type]
    with torch.device(device):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    if recomputed:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if ours and device == "cuda":
        fuse_norms(model)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if device == "cuda" else None, reduce_dtype=torch.float32)
    mesh = init_device_mesh(device, (1,))
    if compiled:
        compile_layers(model)
    for layer in model.get_decoder().layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
    return model.train()


def update(model: Any, optimizer: torch.optim.Optimizer, batches: Sequence[Rows], side: Side) -> float:
    """One update on all micro-batches; returns its loss."""
    device = batches[0].ids[0].device
    total = torch.zeros((), device=device)
    count = sum(int(mask[1:].sum()) for rows in batches for mask in rows.masks)
    for number, rows in enumerate(batches, 1):
        model.set_requires_gradient_sync(number == len(batches))
        model.set_reshard_after_backward(number == len(batches))
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            log_prob, advantage = side(model, rows)
        tokens = Tokens(
            log_prob=log_prob.float()[None], old_log_prob=log_prob.detach().float()[None],
            mask=torch.ones_like(advantage, dtype=torch.bool)[None], streams={"advantage": advantage[None]},
        )  # fmt: skip
        loss = Vanilla(VanillaConfig(**CLIP))(tokens).sum() / count
        loss.backward()
        total += loss.detach()
    optimizer.step()
    optimizer.zero_grad()
    return float(total)


@contextmanager
def alone(device: str) -> Iterator[None]:
    """A process group of this process, which FSDP2 wants."""
    dist.init_process_group("nccl" if device == "cuda" else "gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def flops(shape: dict[str, int], parameters: int, batches: Sequence[Rows]) -> float:
    """Of forward and backward pass: 6 a parameter and token, and causal attention."""
    lengths = [len(ids) for rows in batches for ids in rows.ids]
    attention = 6 * shape["num_hidden_layers"] * shape["hidden_size"] * sum(size**2 for size in lengths)
    return 6.0 * parameters * sum(lengths) + attention


@dataclass
class Speed:
    """Of a side."""

    seconds: list[float]
    """Of each update."""
    gib: float
    """Most memory; 0 on a CPU, where it is not measured."""
    loss: float
    """Of the first update."""
    parameters: int


def timed(
    device: str, shape: dict[str, int], batches: Sequence[Rows], repeats: int, sides: Sequence[str], profiled: bool
) -> Iterator[tuple[str, Speed]]:
    """Each side with a model of its own, one after the other."""
    for name in sides:
        attention, recomputed, side = SIDES[name]
        model = build(
            device, shape, attention, recomputed=recomputed, ours=side is not padded, compiled=name == "compiled"
        )  # fmt: skip
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
        first, seconds = update(model, optimizer, batches, side), []
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        for _ in range(repeats):
            wait(device)
            begun = time.perf_counter()
            update(model, optimizer, batches, side)
            wait(device)
            seconds.append(time.perf_counter() - begun)
        if profiled and name == sides[0]:
            show_profile(device, partial(update, model, optimizer, batches, side))
        memory = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
        yield name, Speed(seconds, memory, first, sum(weight.numel() for weight in model.parameters()))
        del model, optimizer
        gc.collect()  # FSDP2's modules know each other
        if device == "cuda":
            torch.cuda.empty_cache()


def show_profile(device: str, work: Callable[[], Any]) -> None:
    """Print the operations on the device that take most of its time."""
    with profile(activities=[ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU]) as profiler:
        work()
        wait(device)
    rows = sorted(profiler.key_averages(), key=lambda row: -row.self_device_time_total - row.self_cpu_time_total)
    for row in rows[:25]:
        milliseconds = (row.self_device_time_total or row.self_cpu_time_total) / 1000
        print(f"{milliseconds:9.1f} ms {row.count:6d} x {row.key[:110]}", flush=True)


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a model of some thousand parameters, short episodes")
    parser.add_argument("--repeats", type=positive, default=3, help="updates that are timed, after one that warms up")
    parser.add_argument("--episodes", type=positive, help="of an update; 16, or 6 with --tiny")
    parser.add_argument("--micro-tokens", type=positive, help="most tokens of a micro-batch; 8192, or 200 with --tiny")
    parser.add_argument("--sides", default=",".join(SIDES), help="which sides, with commas between them")
    parser.add_argument("--profile", action="store_true", help="where the time of the first side's update goes")
    arguments = parser.parse_args()
    if unknown := set(sides := arguments.sides.split(",")) - set(SIDES):
        parser.error(f"no side has the name {', '.join(sorted(unknown))}; choose {', '.join(SIDES)}")
    device, shape = arguments.device, TINY if arguments.tiny else SHAPE
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device is there; --device cpu --tiny shows that the script works")
    size = arguments.micro_tokens or (200 if arguments.tiny else 8192)
    longest, many = (100, 6) if arguments.tiny else (4096, 16)
    if size < longest:
        parser.error(f"--micro-tokens {size}: an episode has up to {longest}")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    print(f"{name}, torch {torch.__version__}")
    good = compare(device)
    batches = micro_batches(shape["vocab_size"], size, longest, arguments.episodes or many, device)
    total = sum(rows.tokens for rows in batches)
    many = sum(len(rows.ids) for rows in batches)
    print(f"{many} episodes, {total} tokens, {len(batches)} micro-batches of at most {size}")
    print("            tokens/s [min, max]       TFLOP/s  MFU     GiB    loss")
    peak = next((value for part, value in PEAK.items() if part in name), None)
    with alone(device):
        for side, run in timed(device, shape, batches, arguments.repeats, sides, arguments.profile):
            speed = sorted(total / seconds for seconds in run.seconds)
            work = flops(shape, run.parameters, batches) / median(run.seconds)
            mfu = "-" if peak is None else f"{work / peak:.3f}"
            shown = f"{median(speed):.0f} [{speed[0]:.0f}, {speed[-1]:.0f}]"
            print(
                f"{side:11s} {shown:25s} {work / 1e12:<8.2f} {mfu:7s} {run.gib:<6.1f} {run.loss:.6f}",
                flush=True,
            )
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
