"""Recipes of published results have the published settings, those of hidden defaults included."""

from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pytest
from sweep import thinned

pytest.importorskip("verl")

from agentgym_rl.algorithms.agentevol import AgentEvolConfig
from agentgym_rl.algorithms.bc import CloningConfig
from agentgym_rl.algorithms.correction import Correction, CorrectionConfig
from agentgym_rl.algorithms.early_experience import Budget, EarlyExperienceConfig, Mode
from agentgym_rl.algorithms.gigpo import GiGPOConfig
from agentgym_rl.algorithms.grpo import GRPOConfig
from agentgym_rl.algorithms.losses.aggregation import Aggregation
from agentgym_rl.algorithms.losses.vanilla import VanillaConfig
from agentgym_rl.algorithms.optimizer import OptimizerConfig
from agentgym_rl.algorithms.ppo import PPOConfig
from agentgym_rl.algorithms.shaping import ShapingConfig
from agentgym_rl.api.published import PROTOCOLS, TARGETS, find
from agentgym_rl.engine.recipe import preflight
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.envs import Task, make


class Script(NamedTuple):
    """One of AgentGym-RL's scripts."""

    items: int | None
    """Training tasks: lines of its train_file."""
    total_epochs: int
    train_batch_size: int
    ppo_mini_batch_size: int
    ppo_epochs: int
    n: int
    rounds: list[int]
    max_response_length: int
    max_tokens: int
    steps_scaling_inter: int = 100
    lr: float = 1e-6

    @property
    def steps(self) -> int:
        """Its trainer drops a last batch that is not full."""
        return 300 if self.items is None else self.items // self.train_batch_size * self.total_epochs


AGENTGYM_RL = {
    "textcraft_grpo_3b": Script(374, 30, 32, 8, 2, 8, [30], 10240, 512),
    "babyai_grpo_3b": Script(810, 10, 16, 8, 1, 8, [20], 4096, 200),
    "textcraft_scaling_inter": Script(374, 30, 32, 8, 2, 8, [10, 20, 30], 10240, 512),
    "babyai_scaling_inter": Script(810, 20, 32, 8, 2, 4, [6, 13, 20], 8192, 512),
    "sciworld_scaling_inter": Script(2120, 10, 16, 8, 1, 8, [10, 20, 30], 8192, 200),
    # about 170,000 training tasks: their epochs would be over 100,000 steps
    "searchqa_scaling_inter": Script(None, 20, 32, 8, 2, 4, [5, 8, 10], 8192, 512),
    # the learning rate is the paper's, App. B
    "webarena_scaling_inter": Script(372, 25, 32, 4, 2, 4, [8, 12, 15], 14098, 512, steps_scaling_inter=80, lr=5e-7),
}
"""https://github.com/WooooDyy/AgentGym-RL: examples/train/{AgentGym-RL,ScalingInter-RL}/<env>_train.sh, and the numbers
of tasks in its data set AgentGym-RL-Data-ID."""


@pytest.mark.parametrize("name", thinned(AGENTGYM_RL, 3))
def test_agentgym_rl(name):
    config, script = load([f"experiment={name}"]), AGENTGYM_RL[name]
    assert config.algorithm == GRPOConfig(
        name="grpo",
        steps=script.steps,
        tasks_per_step=script.train_batch_size,
        samples_per_task=script.n,
        mini_batch_tasks=script.ppo_mini_batch_size,
        epochs=script.ppo_epochs,
        lr=script.lr,
        # clip and entropy of verl/agent_trainer/config/ppo_trainer.yaml;
        # verl/workers/agent_actor/dp_actor.py takes the token mean of a micro-batch, and the scripts' have one episode
        loss=VanillaConfig(clip=0.2, entropy=0.001, kl=1e-3, aggregation=Aggregation.SEQ_MEAN_TOKEN_MEAN),
        correction=CorrectionConfig(kind=Correction.NONE),
        # verl/workers/agent_fsdp_workers.py; no warm-up, constant
        optimizer=OptimizerConfig(weight_decay=0.01, betas=[0.9, 0.999], clip_grad=1.0),
    )
    env = name.partition("_")[0]
    limits = [Resolved(config).curriculum.max_turns(env, 1 + place * script.steps_scaling_inter) for place in range(3)]
    assert limits == (script.rounds if len(script.rounds) > 1 else [None] * 3)
    assert Resolved(config).max_turns(env) == script.rounds[-1]
    assert config.model.response_tokens == script.max_response_length
    assert (config.rollout.max_new_tokens, config.rollout.temperature) == (script.max_tokens, 1.0)


AGENTEVOL = {
    "webshop": (3930, 10, 0.99),
    "alfworld": (2420, 30, 0.99),
    "textcraft": (374, 20, 0.99),
    "sciworld": (2120, 30, 0.99),
    "babyai": (810, 20, 0.0),
}
"""https://github.com/WooooDyy/AgentGym: trajectories of AgentTraj-L (README.md), max_round_list of
agentenv/examples/agentevol/train_agentevol_multi_task.sh, thresholds of agentenv/utils/agentevol_filter.py, where
SciWorld's reward is 0 to 100."""


def test_agentevol():
    config = load(["experiment=agentevol_7b"])
    # iter_num=4 trains four times, first on demonstrations, which is cloning here;
    # batch_size 2 x gradient_accumulation_steps 2 x num_processes 8; weight_decay 0 and clip_grad_norm 1 of the script
    size, rate = 32, 1e-5
    assert config.cloning == CloningConfig(epochs=1, lr=rate, mini_batch_trajectories=size)
    assert config.algorithm == AgentEvolConfig(
        name="agentevol", steps=3, tasks_per_step=sum(count for count, _, _ in AGENTEVOL.values()), samples_per_task=1,
        epochs=1, lr=rate, mini_batch_trajectories=size,
    )  # fmt: skip
    assert (config.cloning.optimizer.weight_decay, config.cloning.optimizer.clip_grad) == (0, 1)
    assert config.rollout.temperature == 0, "do_sample False"
    other = load(["experiment=agentevol_7b", "algorithm=grpo"])
    assert other.rollout.temperature == 1, "greedy episodes have no policy gradient"
    assert list(config.envs) == list(AGENTEVOL)
    for name, (_, max_turns, threshold) in AGENTEVOL.items():
        env = config.envs[name]
        assert (env.max_turns, make(name).spec.success_above) == (max_turns, threshold)
        assert env.split == env.demonstrations_file == f"AgentGym/AgentTraj-L:{name}_train.json"
        assert env.panels["test"].split == f"AgentGym/AgentEval:{name}_test.json"


def test_early_experience():
    """App. B.1 of arXiv 2510.08558: 8 other actions and the expert's at each state of ALFWorld, batch 16, 1e-5, 2
    epochs. Section 5.1: one epoch of world modelling, as many updates in all as cloning alone. The base weights act."""
    config = load(["experiment=early_experience_7b"])
    assert config.algorithm == EarlyExperienceConfig(
        name="early_experience", mode=Mode.WORLD, alternatives=8, include_expert=True, states=None, temperature=1.0,
        iwm_epochs=1, budget=Budget.EQUAL, epochs=2, lr=1e-5, mini_batch_trajectories=16,
    )  # fmt: skip
    assert (config.cloning.epochs, config.model.path) == (0, "Qwen/Qwen2.5-7B-Instruct")
    for name, env in config.envs.items():
        _, max_turns, _ = AGENTEVOL[name]
        assert env.split == env.demonstrations_file == f"AgentGym/AgentTraj-L:{name}_train.json"
        assert (env.max_turns, env.panels["test"].split) == (max_turns, f"AgentGym/AgentEval:{name}_test.json")
    assert list(config.envs) == ["webshop", "alfworld", "sciworld"]
    cloning = load(["experiment=early_experience_7b", "algorithm=bc", "cloning.epochs=2"]).cloning
    assert cloning == CloningConfig(epochs=2, lr=1e-5, mini_batch_trajectories=16), "as many updates"


class VerlAgent(NamedTuple):
    """What differs between verl-agent's two scripts."""

    max_steps: int
    max_prompt_length: int
    val_data_size: int
    mean_std_norm: bool
    options: dict[str, str]


VERL_AGENT = {
    "alfworld": VerlAgent(50, 2048, 128, True, {"data": "~/.cache/alfworld", "splits": "alfworld"}),
    # use_small: True, human_goals: False of verl/trainer/config/ppo_trainer.yaml; goals 0 to 499 and the reward of
    # agent_system/environments/env_package/webshop/envs.py; val_data_size * 2 of the script
    "webshop": VerlAgent(
        15, 4096, 256, False, {"data": "~/.cache/webshop-1000", "splits": "verl_agent", "rewarded": "success"}
    ),
}


@pytest.mark.parametrize("env", VERL_AGENT)
def test_verl_agent(env):
    """https://github.com/langfengQ/verl-agent at d0b9724: examples/{gigpo,grpo,ppo}_trainer/run_<env>.sh; entropy,
    weight decay, clip, loss aggregation and history_length are in verl/trainer/config/ppo_trainer.yaml."""
    config, script = load([f"experiment=verl_agent_{env}"]), VERL_AGENT[env]
    online = {
        "steps": 150, "tasks_per_step": 16, "samples_per_task": 8, "lr": 1e-6,
        "loss": VanillaConfig(kl=0.01, clip=0.2, entropy=0.001, aggregation=Aggregation.TOKEN_MEAN),
        "shaping": ShapingConfig(scale=10, invalid_action_penalty=0.1),
        "correction": CorrectionConfig(kind=Correction.NONE),
        "optimizer": OptimizerConfig(weight_decay=0.01), "mini_batch_tasks": 1,
    }  # fmt: skip
    by_std = script.mean_std_norm
    assert config.algorithm == GiGPOConfig(name="gigpo", gamma=0.95, step_weight=1.0, normalise_by_std=by_std, **online)
    others = {name: load([f"experiment=verl_agent_{env}", f"algorithm={name}"]).algorithm for name in ("grpo", "ppo")}
    assert others["grpo"] == GRPOConfig(name="grpo", normalise_by_std=True, **online)
    # gamma and lam are algorithm.gamma and algorithm.lam of ppo_trainer.yaml, 1.0 both
    assert others["ppo"] == PPOConfig(name="ppo", critic_lr=1e-5, gamma=1.0, lam=1.0, **online)
    assert Resolved(config).max_turns(env) == script.max_steps
    rollout = config.rollout
    assert (rollout.style, rollout.context, rollout.action_format) == ("verl_agent", "recent", "tags")
    assert (rollout.keep_turns, rollout.max_new_tokens, rollout.temperature) == (2, 512, 1.0)
    assert config.model.prompt_tokens == script.max_prompt_length
    assert config.model.response_tokens == rollout.max_new_tokens, "every turn is a segment of its own"
    assert config.envs[env].options == script.options
    panels = config.envs[env].panels
    assert {(panel.temperature, panel.greedy, panel.samples) for panel in panels.values()} == {(0.4, False, 1)}
    assert [panel.n for panel in panels.values() if panel.role == "validation"] == [script.val_data_size]
    assert (config.run.eval_every, config.engine.workers, config.model.path) == (5, 2, "Qwen/Qwen2.5-1.5B-Instruct")


TINY = [
    "model=tiny", "model.prompt_tokens=3072", "model.response_tokens=48", "rollout.max_new_tokens=48", "engine=cpu",
    "envs.alfworld.options={data: null, splits: agentgym, size: small}", "envs.alfworld.panels.test.split=test",
    "envs.alfworld.panels.valid_seen={split: test, n: 2}", "algorithm.steps=2",
]  # fmt: skip
"""verl-agent's ALFWorld on two cores: generated games and a model built on the spot."""


@pytest.mark.parametrize("algorithm", ["gigpo", "grpo", "ppo"])
def test_verl_agent_without_its_data(algorithm):
    config = load(["experiment=verl_agent_alfworld", f"algorithm={algorithm}", *TINY])
    run = Resolved(config)
    preflight.check_config(run)
    env = run.local["alfworld"]
    assert env.spec.prompt is not None and env.style == "verl_agent" and env.difficulty(Task("alfworld", 10_000))
    assert {len(panel.item_ids) for panel in run.panels["alfworld"].values()} == {2, 60}


DEPARTURES = {
    ("verl_agent_alfworld", "algorithm.mini_batch_tasks"): (256, 1, "an update counts tasks, theirs turns"),
    ("verl_agent_webshop", "algorithm.mini_batch_tasks"): (64, 1, "an update counts tasks, theirs turns"),
    ("agentevol_7b", "model.path"): (
        "meta-llama/Llama-2-7b-chat-hf", "Qwen/Qwen2.5-7B-Instruct", "a model that is served and tuned today",
    ),
    ("agentevol_7b", "cloning.optimizer.warmup_steps"): (-100, 0, "theirs warms up over a tenth of a pass and falls"),
    ("webarena_scaling_inter", "algorithm.lr"): (1e-6, 5e-7, "the paper's App. B"),
    ("searchqa_scaling_inter", "algorithm.steps"): (20 * 170_000 // 32, 300, "their epochs are over 100,000 steps"),
    ("textcraft_scaling_inter", "model.prompt_tokens"): (512, 1024, "one limit for all; no prompt is cut"),
    ("babyai_scaling_inter", "model.prompt_tokens"): (512, 1024, "one limit for all; no prompt is cut"),
    ("webarena_scaling_inter", "model.prompt_tokens"): (750, 1024, "one limit for all; no prompt is cut"),
}  # fmt: skip
"""Recipe and key: what the published script has, what ours has, and why. Sources: run_alfworld.sh and run_webshop.sh of
verl-agent (actor_rollout_ref.actor.ppo_mini_batch_size), train_agentevol_multi_task.sh of AgentGym (model_train_path,
warmup_step), examples/train/ScalingInter-RL/<env>_train.sh of AgentGym-RL (policy_learning_rate, trainer.total_epochs,
data.max_prompt_length)."""


@pytest.mark.parametrize(("name", "key"), thinned(DEPARTURES, 3))
def test_departures_are_those_that_are_named(name, key):
    published, ours, reason = DEPARTURES[name, key]
    value = reduce(getattr, key.split("."), load([f"experiment={name}"]))
    assert value == ours != published and reason


SCALING_INTER = [name for name in PROTOCOLS if name.endswith("_scaling_inter")]


@pytest.mark.parametrize("name", SCALING_INTER)
def test_the_page_has_the_settings_of_their_evaluation(name):
    """max_rounds, data.max_prompt_length and data.max_response_length of AgentGym-RL's examples/eval/<env>_eval.sh,
    which load global_step_150 and sample once at temperature 1."""
    protocol, env = PROTOCOLS[name], name.partition("_")[0]
    evaluation = dict(protocol.evaluation)
    page = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text()
    title = {"textcraft": "TextCraft", "babyai": "BabyAI", "sciworld": "SciWorld", "searchqa": "SearchQA"}
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {title.get(env, 'WebArena')} | ")]
    assert f"| {evaluation['max_turns']}, {evaluation['prompt_tokens']} + {evaluation['response_tokens']} |" in row
    assert (protocol.checkpoint, evaluation["temperature"], evaluation.get("samples", 1)) == (150, 1.0, 1)
    config = load(find(f"{name}_stepwise").overrides)
    assert config.model.path == "Qwen/Qwen2.5-7B-Instruct"
    assert config.run.keep_checkpoints is None and protocol.checkpoint % config.run.save_every == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_every_published_result_composes_with_the_model_and_the_panel_that_it_names(name):
    target = TARGETS[name]
    config = load(target.overrides)
    assert {"1.5B": "1.5B", "7B": "7B"}[target.arm.size] in config.model.path
    for env in target.arm.values:
        assert target.protocol.panel in config.envs[env].panels
    assert config.run.dir == f"runs/{name}-seed0"
    if target.arm.method == "fixed":
        assert config.curriculum.type == "fixed"
    elif target.arm.method in ("PPO", "GRPO", "GiGPO", "AgentEvol"):
        assert config.algorithm.name == target.arm.method.lower()
