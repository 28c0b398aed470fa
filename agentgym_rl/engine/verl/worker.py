"""verl's workers, with a learning rate, an optimizer and weights that change between the stages of a run."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from tempfile import TemporaryFile
from typing import IO, Any

import numpy
import torch
from safetensors import safe_open
from tensordict import TensorDict
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.plugin.platform import get_platform
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.padding import response_from_nested

from agentgym_rl.data.files import write_text
from agentgym_rl.engine.verl.adapters import merged_weights, with_adapters
from agentgym_rl.engine.verl.drift import response_fields
from agentgym_rl.engine.verl.rows import WRITTEN

FORCE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""PyTorch's variable that goes before the argument ``weights_only``."""
NUMPY: tuple[Any, ...] = (numpy.empty(0).__reduce__()[0], numpy.ndarray, numpy.dtype, numpy.dtypes.UInt32DType)
"""Types that arrays are built from: verl stores the state of NumPy's generator."""


class AgentWorker(DetachActorWorker):  # type: ignore[misc]
    """Runs every stage of a run in the same process, on the same weights."""

    _starting: Future[None] | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._kept: dict[object, dict[str, torch.Tensor] | IO[bytes]] = {}
        """Weights by name of the copy."""
        self._moments: dict[object, dict[torch.Tensor, dict[str, Any]]] = {}
        """State of the optimizer by name of the copy, for each weight."""
        self._outputs: dict[str, torch.Tensor] = {}
        """Of the latest update that was asked for them."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        """Build the model. On a CPU in a thread, so that the vLLM server starts beside it; :meth:`ready` waits for it.

        On a GPU one after the other, because vLLM measures the free memory while it starts.
        """
        if get_platform().device_name == "cpu":
            self._starting = ThreadPoolExecutor(1, "init_model").submit(self._build)
        else:
            self._build()

    def _build(self) -> None:
        torch.manual_seed(self.config.actor.fsdp_config.seed)  # adapters start at random, the same after a restart
        super().init_model()
        engine = self.actor.engine
        if (layers := self.config.agentgym.train_layers) is not None:
            train_last(engine.module, layers)
        engine._merged_lora_per_tensor_param = partial(merged_weights, engine)
        engine.train_batch = partial(self._train_batch, engine.train_batch)

    def _train_batch(self, train: Callable[..., dict[str, Any]], data: TensorDict, loss_function: Any) -> Any:
        """verl's update, whose caller drops the outputs."""
        output = train(data, loss_function)
        self._outputs = output["model_output"]
        return output

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def compute_log_prob(self, data: TensorDict) -> TensorDict:
        """As verl's; with ``of_update`` those that the latest update computed before it changed the weights.

        With :data:`.rows.WRITTEN` what is written about the responses, in place of all tokens.
        """
        if tu.get_non_tensor_data(data, "of_update", False):
            output = tu.get_tensordict(self._outputs, {"metrics": {}}).cpu()
        else:
            output = super().compute_log_prob(data)
        field = tu.get_non_tensor_data(data, WRITTEN, None)
        if field is None or output is None:  # verl has nothing from ranks that share their rows with another one
            return output
        if field == "old_log_probs":
            return response_fields(output, data, tu.get_non_tensor_data(data, "correction", {}), self._mean)
        names, mask = {field: "log_probs"}, data["response_mask"]
        if tu.get_non_tensor_data(data, "calculate_entropy", False):
            names[f"{field}_entropy"] = "entropy"
        fields = {name: response_from_nested(output[of], mask) for name, of in names.items()}
        return TensorDict(fields, batch_size=len(data))

    def _mean(self, total: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        """Quotient of two numbers, each summed over the workers that have different rows."""
        both = torch.stack([total.double(), count.double()]).to(get_platform().device_name)
        torch.distributed.all_reduce(both, group=self.actor.engine.get_data_parallel_group())
        return (both[0] / both[1].clamp(min=1e-8)).float().cpu()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    async def ready(self) -> None:
        """Return when the model is built, or raise what went wrong."""
        if self._starting is not None:
            await asyncio.wrap_future(self._starting)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_threads(self, threads: int) -> None:
        """Set the number of threads; the environment sets that of every other process of a CPU run."""
        torch.set_num_threads(threads)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def reset_optimizer(self) -> None:
        """Forget the moments of the policy's optimizer."""
        self.actor.engine.optimizer.state.clear()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_optimizer(self, lr: float, weight_decay: float, betas: tuple[float, float], clip_grad: float) -> None:
        """Change the settings of the policy's optimizer in place."""
        engine = self.actor.engine
        for group in engine.optimizer.param_groups:
            group |= {"lr": lr, "initial_lr": lr, "weight_decay": weight_decay, "betas": betas}
        engine.lr_scheduler.base_lrs = [lr] * len(engine.optimizer.param_groups)
        engine.optimizer_config.clip_grad = clip_grad

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def save_checkpoint(
        self, local_path: str, hdfs_path: str | None = None, global_step: int = 0, max_ckpt_to_keep: int | None = None
    ) -> None:
        """As verl's; beside adapters their configuration in PEFT's format, which names the model below them."""
        super().save_checkpoint(local_path, hdfs_path, global_step, max_ckpt_to_keep)
        loads_anywhere(Path(local_path))
        adapters = getattr(self.actor.engine.module, "peft_config", None)  # only a model with adapters has one
        if self.rank == 0 and adapters is not None:
            adapters["default"].save_pretrained(local_path)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def load_checkpoint(
        self, local_path: str, hdfs_path: str | None = None, del_local_after_load: bool = False
    ) -> None:
        """As verl's, but no code of the files is run.

        Raises:
            ValueError: they hold something else than tensors and plain values, or a weight that does not learn differs.
        """
        with only_data(local_path):
            self._check_frozen(Path(local_path))
            super().load_checkpoint(local_path, hdfs_path, del_local_after_load)

    def _check_frozen(self, place: Path) -> None:
        """Raises ValueError: weights that do not learn, which nothing would bring back, are others in a checkpoint."""
        named = self.actor.engine.module.named_parameters()
        frozen = {name: weight for name, weight in named if not weight.requires_grad}
        if not frozen or (place / "adapter_config.json").is_file():  # a checkpoint of adapters has no others
            return
        reshard(self.actor.engine.module)
        state = torch.load(file_of(place), "cpu", weights_only=True)
        for name, weight in frozen.items():
            if name not in state or not torch.equal(local(weight), local(state[name]).to(local(weight))):
                raise ValueError(f"{place} differs in {name}, which does not learn (model.train_layers)")

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def save_model_to_cpu(self, n: object) -> None:
        """Keep this worker's part of the weights under a name, in pinned host memory; on a CPU, in an unnamed file."""
        weights = {name: local(weight).detach() for name, weight in self._weights()}
        if get_platform().device_name == "cpu":
            self._kept[n] = file = TemporaryFile()  # noqa: SIM115 - open for as long as it is kept
            torch.save(weights, file)
        else:
            self._kept[n] = {
                name: torch.empty_like(weight, device="cpu", pin_memory=True).copy_(weight)
                for name, weight in weights.items()
            }

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def restore_model_from_cpu(self, n: object) -> None:
        """Put kept weights back in place."""
        weights = self._kept[n]
        if not isinstance(weights, dict):
            weights.seek(0)
            weights = torch.load(weights, weights_only=True)
        with torch.no_grad():
            for name, weight in self._weights():
                local(weight).copy_(weights[name], non_blocking=True)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def put_moments_by(self, n: object) -> None:
        """Move the optimizer's state to the host, under a name, so that the optimizer has none."""
        state = self.actor.engine.optimizer.state
        self._moments[n] = {weight: moved(moments, torch.device("cpu")) for weight, moments in state.items()}
        state.clear()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def take_moments(self, n: object) -> None:
        """Move such a state back to the optimizer; none where there is none under the name."""
        state, saved = self.actor.engine.optimizer.state, self._moments.pop(n, {})
        state.clear()
        state.update({weight: moved(moments, weight.device) for weight, moments in saved.items()})

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def clear_cpu_model(self, n: object) -> None:
        """Forget kept weights."""
        self._kept.pop(n, None)
        self._moments.pop(n, None)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def load_pretrained(self, folder: str) -> None:
        """Take the weights of a Hugging Face folder.

        Raises:
            ValueError: one is missing, or one that does not learn differs.
        """
        reshard(self.actor.engine.module)
        missing = dict(self.actor.engine.module.named_parameters())
        for file in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(file, "pt") as tensors, torch.no_grad():
                for name in missing.keys() & tensors.keys():
                    weight = missing.pop(name)
                    part = part_of(tensors.get_tensor(name), weight)
                    if weight.requires_grad:
                        local(weight).copy_(part)
                    elif not torch.equal(local(weight), part.to(local(weight))):
                        raise ValueError(f"{folder} differs in {name}, which does not learn (model.train_layers)")
        if missing:
            raise ValueError(f"{folder} has no {', '.join(sorted(missing)[:3])} in its safetensors files")

    def _weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Those that learn, as the optimizer changes them."""
        reshard(self.actor.engine.module)
        named = self.actor.engine.module.named_parameters()
        yield from ((name, weight) for name, weight in named if weight.requires_grad)


class CriticWorker(TrainingWorker):  # type: ignore[misc]
    """verl's critic, which can start from a policy."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def save_checkpoint(self, local_path: str, *arguments: Any, **named: Any) -> None:
        """As verl's."""
        super().save_checkpoint(local_path, *arguments, **named)
        loads_anywhere(Path(local_path))

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def load_checkpoint(
        self, local_path: str, hdfs_path: str | None = None, del_local_after_load: bool = False
    ) -> None:
        """As :meth:`AgentWorker.load_checkpoint`."""
        with only_data(local_path):
            super().load_checkpoint(local_path, hdfs_path, del_local_after_load)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def start_from(self, policy: str | None, seed: int) -> None:
        """Take all weights but the head from a policy's checkpoint of as many workers; of adapters, what they change.

        Args:
            policy: None keeps the weights as loaded.
            seed: of the head, which is new: a launch draws it at random, and runs that share an engine share that one.

        Raises:
            ValueError: the two models have no weight in common.
        """
        named, base = dict(self.engine.module.named_parameters()), f"{self.engine.module.base_model_prefix}."
        head = {name for name in named if not name.startswith(base)}
        with torch.no_grad():
            if policy is not None:
                taken = set()
                for name, weight in _policys(named.keys() - head, named, Path(policy)):
                    local(named[name]).copy_(local(weight))
                    taken.add(name)
                if not taken:
                    raise ValueError(f"the critic has none of the weights of the policy in {policy}")
                head = named.keys() - taken
            config = self.engine.module.config.get_text_config()
            deviation = getattr(config, "initializer_range", 0.02)  # as in transformers' PreTrainedModel._init_weights
            generator = torch.Generator().manual_seed(seed)
            for name in sorted(head):
                local(named[name]).copy_(drawn(named[name], deviation, generator))


def file_of(checkpoint: Path) -> Path:
    """The weights of this worker in a checkpoint."""
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return checkpoint / f"model_world_size_{size}_rank_{rank}.pt"


def _policys(names: Set[str], critic: Mapping[str, Any], policy: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Those weights of a critic that a policy's checkpoint has; of adapters, what they make of the critic's own."""
    state, adapters = torch.load(file_of(policy), "cpu", weights_only=True), policy / "adapter_config.json"
    if adapters.is_file():
        settings = json.loads(adapters.read_text())
        weights = with_adapters(critic, state, settings["lora_alpha"] / settings["r"])
        yield from ((name, weight) for name, weight in weights if name in names)
    else:
        yield from ((name, state[name]) for name in names & state.keys())


@contextmanager
def only_data(checkpoint: str) -> Iterator[None]:
    """Inside, ``torch.load`` builds tensors and plain values only, also where verl asks it to run what a file says.

    Raises:
        ValueError: a file holds something else; names the checkpoint.
    """
    before = os.environ.get(FORCE)
    os.environ[FORCE] = "1"
    try:
        with torch.serialization.safe_globals([*NUMPY]):
            yield
    except UnpicklingError as error:
        raise ValueError(f"{checkpoint} holds more than tensors and plain values, and is not loaded") from error
    finally:
        if before is None:
            del os.environ[FORCE]
        else:
            os.environ[FORCE] = before


def reshard(model: torch.nn.Module) -> None:
    """Put a model's weights back in parts: those that a pass without gradients has gathered are copies."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def moved(state: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """What an optimizer has of a weight, with its tensors of the weight's shape on a device."""
    return {
        name: value.to(device) if isinstance(value, torch.Tensor) and value.dim() else value
        for name, value in state.items()
    }


def part_of(whole: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """This worker's part of the values of a whole weight, which each worker has read for itself."""
    if not isinstance(weight, DTensor):
        return whole
    return distribute_tensor(whole, weight.device_mesh, weight.placements, src_data_rank=None).to_local()


def train_last(model: Any, layers: int) -> None:
    """Let the last decoder layers of a language model learn, and nothing else of it."""
    model.requires_grad_(False)
    for layer in model.get_decoder().layers[-layers:]:
        layer.requires_grad_(True)


def loads_anywhere(checkpoint: Path) -> None:
    """Take out of a model's saved configuration how a worker computes attention, a name that only workers know."""
    file = checkpoint / "huggingface" / "config.json"
    if torch.distributed.get_rank() == 0 and file.is_file():
        config = json.loads(file.read_text())
        config.pop("attn_implementation", None)
        write_text(file, json.dumps(config, indent=2) + "\n")


def drawn(weight: torch.Tensor, deviation: float, generator: torch.Generator) -> torch.Tensor:
    """This worker's part of a new weight like another, from a normal distribution, or of a bias, which is 0."""
    whole = torch.zeros(weight.shape)
    if whole.dim() > 1:
        whole.normal_(std=deviation, generator=generator)
    if not isinstance(weight, DTensor):
        return whole
    placed = distribute_tensor(whole.to(weight.device), weight.device_mesh, weight.placements, src_data_rank=None)
    return placed.to_local()


def local(weight: torch.Tensor) -> torch.Tensor:
    """This worker's part of a weight."""
    return weight.to_local() if isinstance(weight, DTensor) else weight
