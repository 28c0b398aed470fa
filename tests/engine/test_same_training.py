"""The same episodes lead to the same weights: a recorded batch goes through the update of every algorithm.

The real engine (Ray, FSDP2, TransferQueue) starts from the tiny model's random weights, which its recipe and seed give.
Its episodes come from a recording instead of from vLLM, so nothing is sampled, and everything after the episodes is as
in any run: buffer, balancing, log-probabilities, values, advantages, losses, updates, checkpoints. Metrics and weights
are compared with committed values. What the recording holds, and what is assumed about the engine, is said in
``replay.py``.

To renew the values after a change that is meant to change them, with a table of old and new ones::

    python tests/engine/test_same_training.py                # shows what differs, writes nothing
    python tests/engine/test_same_training.py --overwrite    # writes recorded/values.json
    python tests/engine/test_same_training.py --overwrite --only grpo,dpo

``--record-batch`` samples new episodes for ``recorded/batch.json.gz``, which makes all values obsolete; only a change
of the tokens or fields of an episode should need it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("VERL_PLATFORM", "cpu")
pytest.importorskip("verl")

import replay

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

HERE = Path(__file__).parent / "recorded"
BATCH, VALUES = HERE / "batch.json.gz", HERE / "values.json"

# What the runs are, in the words of a recipe. Renamed keys are renamed here and nowhere else.

TASKS = ("maze_51", "maze_89", "maze_98", "maze_134", "maze_148", "maze_231", "maze_242", "maze_280")
"""Mazes of two to four steps."""

COMMON = ("env=maze", "envs.maze.split={items}", "envs.maze.panels.test.split={items}",
          "rollout.style=compact", "rollout.max_new_tokens=24", "envs.maze.max_turns=8",
          "logger.wandb=disabled", "run.evaluate_untrained=false", "cloning.epochs=0", "seed=0")  # fmt: skip
"""The tasks of the recording are all there are, so that any draw of a step is all of them."""

REPLAYED = (*COMMON, "envs.maze.panels.test.role=validation",
            "engine.threads=1", "engine.start_seconds=500", "run.save_every=1", "engine.micro_tokens=2048",
            "run.min_counted=0", "run.keep_checkpoints=100")  # fmt: skip
DRAWN = ("algorithm.tasks_per_step=8", "algorithm.samples_per_task=4")
ONLINE = (*DRAWN, "algorithm.steps=2", "algorithm.epochs=2", "algorithm.lr=1e-3")
POLICY = (*ONLINE, "algorithm.mini_batch_tasks=4")
"""Two updates an epoch, two epochs a step, so that the policy leaves the one that is taken for the sampling one."""

SEEDED_CRITIC = ("verl.critic.fsdp.full_determinism=true",)
"""verl draws a critic's value head from an unseeded generator otherwise."""

DEMONSTRATED = ("envs.maze.demonstrations_file={demonstrations}",)
CLONED = (*DEMONSTRATED, "cloning.epochs=1", "cloning.mini_batch_trajectories=4", "cloning.lr=1e-3")
EVOLVED = (*ONLINE, "algorithm.mini_batch_trajectories=4")
VALUED = (*POLICY, *SEEDED_CRITIC, "algorithm.critic_lr=1e-3", "algorithm.gamma=0.99", "algorithm.lam=0.95")

RUNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "grpo": ("plain", ("algorithm=grpo", *POLICY)),
    "grpo_unscaled": ("plain", ("algorithm=grpo", *POLICY, "algorithm.normalise_by_std=false",
                                "algorithm.loss.entropy=0.01", "algorithm.loss.aggregation=seq-mean-token-mean")),
    "grpo_turn": ("plain", ("algorithm=grpo", *POLICY, *CLONED, "algorithm.loss=turn", "algorithm.loss.clip_high=0.3",
                            "algorithm.loss.kl=0.1")),
    "rloo": ("plain", ("algorithm=rloo", *POLICY)),
    "rloo_folded": ("folded", ("algorithm=rloo", *POLICY)),
    "reinforce_pp": ("plain", ("algorithm=reinforce_pp", *POLICY, "algorithm.gamma=0.99")),
    "gigpo": ("plain", ("algorithm=gigpo", *POLICY)),
    "gigpo_folded": ("folded", ("algorithm=gigpo", *POLICY, "algorithm.step_weight=0.5")),
    "shaped": ("plain", ("algorithm=reinforce_pp", *POLICY, "algorithm.loss=cispo",
                         "algorithm.shaping.invalid_action_penalty=0.2", "algorithm.shaping.overlong_turns=2")),
    "filtered": ("plain", ("algorithm=rloo", *POLICY, "algorithm.loss=sapo", "algorithm.groups.filter=true",
                           "algorithm.groups.refills=0")),
    "corrected": ("plain", ("algorithm=grpo", *POLICY, "algorithm.loss=gspo", "algorithm.correction=tis",
                            "algorithm.loss.aggregation=seq-mean-token-sum-norm")),
    "rejected": ("plain", ("algorithm=rloo", *POLICY, *CLONED, "algorithm.correction=geo_rs",
                           "algorithm.correction.bounds=[0.009,90]")),
    "bypassed": ("plain", ("algorithm=grpo", *POLICY, *CLONED, "algorithm.correction=bypass",
                           "algorithm.loss.dual_clip=1.5", "algorithm.shaping.scale=2",
                           "algorithm.shaping.normalise=true", "algorithm.shaping.overlong_tokens=100",
                           "algorithm.groups.filter=true", "algorithm.groups.refills=0",
                           "algorithm.groups.min_reward_std=0.4")),
    "dpo": ("plain", ("algorithm=dpo", *ONLINE, "algorithm.mini_batch_pairs=4", "algorithm.pairs_per_task=2")),
    "bc": ("plain", ("algorithm=bc", *DEMONSTRATED, "cloning.epochs=2", "cloning.mini_batch_trajectories=3",
                     "cloning.lr=1e-3", "cloning.observation_weight=0.1")),
    "agentevol": ("plain", ("algorithm=agentevol", *EVOLVED, *CLONED, "run.control=true")),
    "agentevol_on": ("plain", ("algorithm=agentevol", *DEMONSTRATED, *EVOLVED, "algorithm.restart_from=current",
                               "algorithm.accumulate=true", "algorithm.max_per_task=2", "algorithm.keep_best=true")),
    "ppo_token": ("plain", ("algorithm=ppo", "algorithm.level=token", *VALUED)),
    "ppo_turn": ("plain", ("algorithm=ppo", "algorithm.level=turn", *VALUED, *CLONED)),
}  # fmt: skip
"""The batch of the recording and the recipe of each run. Those with a critic share a second engine."""

CRITICS = ("ppo_token", "ppo_turn")
CLONES = "grpo_turn"
"""The run whose cloned weights the others without a critic take from the cache. It alone saves them as a step."""

RECORDED_WITH = (*COMMON, "algorithm=grpo", *DRAWN, "algorithm.steps=1", "envs.maze.demonstrations=8",
                 "cloning.epochs=20", "cloning.mini_batch_trajectories=2", "cloning.lr=4e-3")  # fmt: skip
RECORDED: dict[str, tuple[str, ...]] = {
    "plain": ("rollout.invalid_limit=2",),
    "folded": ("envs.maze.max_turns=12", "rollout.context=summary", "rollout.notes_tokens=16",
               "rollout.keep_turns=1", "model.response_tokens=160"),
}  # fmt: skip
"""How the batches of the recording were sampled: after cloning, so that tasks are solved now and then."""

BROKEN = {"maze_280": [0], "maze_148": [1, 2, 3]}
"""Recorded episodes that are made to have failed outside the agent; they leave one task with a single episode."""

# What is compared.

COMPARED = re.compile(
    r"^(step$|(actor|batch|critic|reward|diagnostics|shaping|supervised|dpo|credit|agentevol|search|rollout|rollout_corr|env|curriculum"
    r"|val|run|stage|num_turns|prompt_length|response_length|training/rollout\w*)(/|$))"
)
UNCOMPARED = re.compile(r"/perf/|_s$|_per_s$|mfu|wait_frac|run/(?:units|stage_updates)")
"""Metrics of time, memory and machine, and how long a stage is by its recipe."""

RELATIVE, ABSOLUTE, DIRECTION = 5e-4, 1e-6, 1e-3
"""How far a number may be off: a part of it, or as much as the second; a component of a direction as much as the third.

Two runs on one processor agree in every digit. Processors add up in another order, by their vector units: AVX2 against
AVX-512 moves metrics by up to 5e-5 of their size and directions by up to 7e-5. Updates of a critic amplify that, to
3e-4 of its gradient's norm and 3e-4 of a direction, hence ``CRITIC_SLACK``. A metric that cancels to about 0, such as
the mean of whitened advantages, is compared by ``ABSOLUTE``; a correlation near 0 by a part of its range. A token whose
ratio lies at the clip range may fall on either side of it: shares of clipped tokens may differ by ``CLIPPED``, 2 or 3
of some 900 tokens.
"""
CRITIC_SLACK, CLIPPED = 4.0, 3e-3


def spoken(problem: str, old: float, new: float | None) -> str:
    """One line of a failure or of the table."""
    told = "missing" if new is None else f"{new:.9g} ({new - old:+.3g})"
    return f"{problem}: was {old:.9g}, is {told}"


def differences(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two results of a run, by more than processors differ."""
    slack = CRITIC_SLACK if name in CRITICS else 1.0

    def same(value: float, other: float, metric: str = "") -> bool:
        absolute = CLIPPED if "clipfrac" in metric else RELATIVE if "pearson" in metric else ABSOLUTE
        return math.isclose(value, other, rel_tol=slack * RELATIVE, abs_tol=absolute)

    found = []
    if len(old["steps"]) != len(new["steps"]):
        found.append(spoken(f"{name}, number of steps", len(old["steps"]), len(new["steps"])))
    for number, (before, after) in enumerate(zip(old["steps"], new["steps"], strict=False), start=1):
        for metric, value in before.items():
            other = after.get(metric)
            if other is None or not same(value, other, metric):
                found.append(spoken(f"{name}, step {number}, {metric}", value, other))
    for place, before in old["change"].items():
        after = new["change"].get(place)
        if after is None:
            found.append(f"{name}, weights of the {place}: none were saved")
            continue
        for key in ("norm", "largest"):
            if not same(before[key], after[key]):
                found.append(spoken(f"{name}, change of the weights of the {place}, {key}", before[key], after[key]))
        for number, (value, other) in enumerate(zip(before["directions"], after["directions"], strict=True), start=1):
            if abs(value - other) > slack * DIRECTION:
                found.append(
                    spoken(f"{name}, change of the weights of the {place}, along direction {number}", value, other)
                )
    return found


def change(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """How far weights moved, and where to: components of the unit change along four fixed directions.

    With Adam the length of a change says little about the gradient, its direction does. Each component is about as
    large as a standard normal variable.
    """
    import torch

    parts = [(after[name] - before[name]).double().flatten() for name in sorted(before)]
    moved = torch.cat(parts)
    norm = float(moved.norm())
    places = torch.arange(1, len(moved) + 1, dtype=torch.float64)
    waves = [math.sqrt(2) * torch.cos(2 * math.pi * (places * math.sqrt(number) % 1)) for number in (2, 3, 5, 7)]
    return {
        "norm": norm,
        "largest": float(moved.abs().max()),
        "directions": [round(float(moved @ wave) / norm, 9) for wave in waves],
    }


def successive(initial: Mapping[str, Any], steps: Mapping[int, Any]) -> dict[int, tuple[Any, Any]]:
    """What to compare the weights of each step with: those before.

    The initial weights are the policy's. A critic has a value head, too, so its first checkpoint has none before it.
    """
    before, pairs = initial, {}
    for step, after in steps.items():
        if before.keys() >= after.keys() - {"lm_head.weight"}:
            pairs[step] = (before, after)
        before = after
    return pairs


def digest(weights: Mapping[str, Any]) -> str:
    """First 12 hex digits over the bytes of weights."""
    hashed = hashlib.sha256()
    for name in sorted(weights):
        hashed.update(name.encode() + weights[name].contiguous().numpy().tobytes())
    return hashed.hexdigest()[:12]


class Trained:
    """Runs, one after the other, on as few engines as they need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recording = replay.Recording(BATCH)
        self.files = self.recording.unpack(folder / "recording")
        self.session = replay.ReplaySession(self.recording)
        self.results: dict[str, dict[str, Any]] = {}

    def run(self, name: str) -> dict[str, Any]:
        """Train once, after the run whose cloned weights it takes, and return what is compared."""
        if name not in self.results:
            if name not in (CLONES, *CRITICS) and set(CLONED) <= set(RUNS[name][1]):
                self.run(CLONES)
            self.results[name] = self._train(name)
        return self.results[name]

    def _train(self, name: str) -> dict[str, Any]:
        batch, overrides = RUNS[name]
        cache = self.folder / ("cache_critic" if name in CRITICS else "cache")
        self.session.batch = batch
        filled = [override.format(**self.files) for override in (*REPLAYED, *overrides)]
        replay.run([*filled, f"name={name}", f"run.cache={cache}"], self.folder / name, self.session)
        steps = [
            {metric: value for metric, value in row.items() if COMPARED.match(metric) and not UNCOMPARED.search(metric)}
            for row in replay.metrics(self.folder / name)
        ]
        initial = replay.initial_weights(cache)
        moved = {
            f"{role}, step {step}": change(before, after)
            for role in ("actor", "critic")
            for step, (before, after) in successive(initial, replay.weights(self.folder / name, role)).items()
        }
        model = {
            "digest": digest(initial),
            "parameters": sum(weight.numel() for weight in initial.values()),
            "norm": math.sqrt(sum(float(weight.double().square().sum()) for weight in initial.values())),
        }
        return {"model": model, "steps": steps, "change": moved}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    runs = Trained(tmp_path_factory.mktemp("same_training"))
    before = dict(os.environ)
    with runs.session:
        yield runs
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize("name", RUNS)
def test_recorded_episodes_lead_to_the_same_weights(name: str, trained: Trained) -> None:
    """Metrics and weights are those of the committed values; the model that training starts from is the same, too."""
    committed = json.loads(VALUES.read_text())
    assert name in committed["runs"], f"{name} has no committed values; the top of this file says how to add them"
    result = trained.run(name)
    model = committed["model"]
    assert result["model"]["parameters"] == model["parameters"], "the tiny model has another size"
    assert math.isclose(result["model"]["norm"], model["norm"], rel_tol=RELATIVE), "the tiny model starts elsewhere"
    found = differences(name, committed["runs"][name], result)
    assert not found, "\n".join([f"{len(found)} values differ", *found])


def test_the_tiny_model_is_the_same_each_time_it_is_built(trained: Trained) -> None:
    """The runs with a critic build a tiny model of their own."""
    caches = sorted(trained.folder.glob("cache*"))
    if len(caches) < 2:
        pytest.skip("needs a run with a critic and one without")
    assert len({digest(replay.initial_weights(cache)) for cache in caches}) == 1


# renewing


def record_batch(folder: Path) -> None:
    """Sample the episodes of the recording."""
    items = folder / "items.json"
    items.write_text(json.dumps([{"item_id": item} for item in TASKS]))
    batches = {}
    with replay.RecordingSession() as session:
        for batch, overrides in RECORDED.items():
            session.episodes = {}
            filled = [override.format(items=items) for override in (*RECORDED_WITH, *overrides)]
            replay.run([*filled, f"name={batch}", f"run.cache={folder}/cache"], folder / batch, session)
            batches[batch] = {item: session.episodes[item] for item in TASKS}
            solved = [sum(row["episode"]["success"] for row in own) for own in batches[batch].values()]
            print(f"{batch}: episodes solved of each task: {solved}")
    for item, numbers in BROKEN.items():
        for number in numbers:
            for batch in batches.values():
                replay.break_off(batch[item][number])
    demonstrations = json.loads((folder / "plain" / "demonstrations" / "maze.json").read_text())
    content = {"items": TASKS, "demonstrations": demonstrations, "batches": batches}
    HERE.mkdir(exist_ok=True)
    BATCH.write_bytes(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0))
    print(f"{BATCH}: {BATCH.stat().st_size} bytes")


def renew(folder: Path, names: Sequence[str], overwrite: bool) -> int:
    """Run, print what differs from the committed values, and write them if asked to; returns the exit status."""
    committed = json.loads(VALUES.read_text()) if VALUES.is_file() else {"runs": {}}
    runs = Trained(folder)
    found: list[str] = []
    with runs.session:
        for name in names:
            result = runs.run(name)
            model = result.pop("model")
            found += list(told(name, committed["runs"].get(name), result))
            committed["runs"][name] = result
            print(f"{name}: done", flush=True)
    found += [f"model, {key}: was {committed['model'][key]}, is {model[key]}"
              for key in model if "model" in committed and committed["model"][key] != model[key]]  # fmt: skip
    committed["model"] = model
    committed["runs"] = {name: committed["runs"][name] for name in RUNS if name in committed["runs"]}
    print("\n".join(found) or "nothing differs, not even in the last digit")
    if not found:
        return 0
    if not overwrite:
        print(f"\n{VALUES} is as it was; --overwrite writes these values")
        return 1
    VALUES.write_text(json.dumps(committed, indent=1, sort_keys=True) + "\n")
    print(f"\n{VALUES} written")
    return 0


def told(name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Iterator[str]:
    """Every number that is not the same to the last digit, and every one that appeared or went."""
    if old is None:
        yield f"{name}: new"
        return
    before, after = flat(old), flat(new)
    for key in sorted(before | after):
        if before.get(key) == after.get(key):
            continue
        was, now = (f"{numbers[key]:.9g}" if key in numbers else "missing" for numbers in (before, after))
        far = ""
        if key in before and key in after:
            far = f"  ({after[key] - before[key]:+.2e})"
        yield f"{name}, {key}: was {was}, is {now}{far}"


def flat(tree: Any, prefix: str = "") -> dict[str, float]:
    """Numbers of a nested structure by their path."""
    if isinstance(tree, (int, float)):
        return {prefix: tree}
    pairs = tree.items() if isinstance(tree, Mapping) else enumerate(tree, start=1)
    found: dict[str, float] = {}
    for key, value in pairs:
        found |= flat(value, f"{prefix}, {key}" if prefix else str(key))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Renew what test_same_training.py compares with.")
    parser.add_argument("--overwrite", action="store_true", help="write the new values")
    parser.add_argument("--only", help="names of runs, with commas between them")
    parser.add_argument("--record-batch", action="store_true", help="sample new episodes; needs --overwrite")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.record_batch:
            if BATCH.exists() and not chosen.overwrite:
                print(f"{BATCH} exists; --overwrite samples it anew")
                return 1
            record_batch(Path(folder))
            return 0
        return renew(Path(folder), chosen.only.split(",") if chosen.only else list(RUNS), chosen.overwrite)


if __name__ == "__main__":
    sys.exit(main())
