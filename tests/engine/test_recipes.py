"""Recipes compose, mistakes name their key, and verl accepts what becomes of a recipe."""

from pathlib import Path

import pytest

pytest.importorskip("verl")

from omegaconf import OmegaConf

from agentgym_rl.algorithms import ALGORITHMS
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe import preflight, tasks
from agentgym_rl.engine.recipe.compose import RecipeError, experiments, load
from agentgym_rl.engine.recipe.config import Config, ModelConfig
from agentgym_rl.engine.run import tiny
from agentgym_rl.engine.verl.mapping import defaults, verl_config

EXPERIMENTS = experiments()
LARGE = sorted(name for name in EXPERIMENTS if load([f"experiment={name}"]).engine.device == "cuda")
"""Recipes for GPUs."""


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A Qwen2 in a folder, as verl's own checks want to read a model's configuration."""
    shape = ModelConfig(vocabulary=300, width=16, layers=1, heads=1, kv_heads=1, mlp=16)
    return tiny.build(tmp_path_factory.mktemp("recipes") / "model", shape, ["Count to 3."] * 20, seed=0)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes(name):
    config = load([f"experiment={name}"])
    assert isinstance(config, Config)
    preflight.check_config(config)
    assert set(config.worlds) and all(world.panels for world in config.worlds.values())
    assert config.run.dir == f"runs/{config.name}"
    as_yaml = OmegaConf.create(recipes.to_yaml(config))
    assert as_yaml.algorithm.name == config.algorithm.name
    assert load([f"experiment={name}", "seed=7"]).seed == 7


@pytest.mark.parametrize("folder", sorted(path for path in recipes.recipes_dir().iterdir() if path.is_dir()))
def test_every_option_of_every_group_composes(folder):
    options = sorted(path.stem for path in folder.glob("*.yaml"))
    assert options
    for option in options:
        load([*(() if folder.name == "experiment" else ("name=x",)), f"{folder.name}={option}"])


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["nosuch=1"], "nosuch"),
        (["rollout.turn_token=5"], r"rollout\.turn_token"),
        (["worlds.textcraft.panel.x=5"], r"worlds\.textcraft\.panel"),
        (["worlds.textcraft.panels.new_variants.count=5"], r"panels\.new_variants\.count"),
        (["bc.epochs=many"], r"bc\.epochs"),
        (["run.control=perhaps"], r"run\.control"),
        (["engine=tpu"], "engine/tpu"),
        (["modle=tiny"], "modle"),
        (["experiment=nothing"], "experiment/nothing"),
        (["seed"], "seed"),
        (
            ["worlds.textcraft.panels.new_variants.split=???"],
            r"missing values: worlds\.textcraft\.panels\.new_variants\.split",
        ),
    ],
)
def test_mistakes_name_the_key(overrides, says):
    with pytest.raises(RecipeError, match=says):
        load(["experiment=smoke", *overrides])


def test_a_name_is_asked_for():
    with pytest.raises(RecipeError, match="missing values: name; set them like name=my_run"):
        load([])


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("algorithm.name=dqn", r"algorithm\.name='dqn' is unknown; choose agentevol, bc, dpo, gigpo, grpo, ppo"),
        ("algorithm.level=word", r"algorithm\.level='word' is unknown; choose token or turn"),
        ("algorithm.restart_from=bc", r"algorithm\.restart_from='bc' is unknown; choose base or current"),
        ("algorithm.keep_best=true", r"give a panel role=validation"),
        ("+algorithm.success_threshold.maze=0.5", r"names maze, which the run does not have"),
        ("worlds.textcraft.panels.new_variants.role=final", r"role is test or validation, got final"),
        ("engine.device=tpu", r"engine\.device='tpu'"),
        ("rollout.style=loud", r"rollout\.style='loud'"),
        ("logger.wandb=yes please", r"logger\.wandb='yes please'"),
        ("algorithm.minibatch=0", r"algorithm\.minibatch must be at least 1, got 0"),
        ("worlds.textcraft.experts=0", r"worlds\.<name>\.experts or worlds\.<name>\.expert_file"),
    ],
)
def test_values_that_no_type_rules_out(override, says):
    with pytest.raises(RecipeError, match=says):
        preflight.check_config(load(["experiment=smoke", override]))


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["curriculum.type=steep"], "curriculum.type='steep' is unknown; choose fixed, stepwise"),
        (["curriculum=stepwise", "curriculum.rounds=[3]"], "two or more"),
        (["worlds.textcraft.curriculum.round=[3]"], r"worlds\.textcraft\.curriculum: .*unexpected .*'round'"),
        (["worlds.textcraft.curriculum.rounds=[0]"], r"worlds\.textcraft\.curriculum: .*at least 1"),
        (["algorithm.rounds_ctrl.type=linear"], "rounds_ctrl.type='linear' is unknown"),
        (["algorithm.rounds_ctrl.type=fixed", "algorithm.rounds_ctrl.rounds=4", "curriculum=stepwise"], "both"),
    ],
)
def test_curricula_out_of_range(overrides, says):
    with pytest.raises(ValueError, match=says):
        config = load(["experiment=smoke", *overrides])
        preflight.check_config(config)
        tasks.curriculum(config)


def test_a_worlds_own_curriculum_goes_before_that_of_the_run_and_agentgym_rls_keys_are_taken():
    agentgym_rl = ["type=scaling_inter_stepwise", "rounds=[4,6]", "steps_scaling_inter=10"]
    config = load(["experiment=smoke", *(f"algorithm.rounds_ctrl.{one}" for one in agentgym_rl)])
    (name,) = config.worlds
    assert [tasks.curriculum(config).horizon(name, step) for step in (1, 10, 11)] == [4, 4, 6]
    own = [f"worlds.{name}.curriculum.{one}" for one in ("type=linear", "rounds=[1,3]", "steps=2")]
    config = load(["experiment=smoke", "curriculum=stepwise", *own])
    assert [tasks.curriculum(config).horizon(name, step) for step in (1, 2, 3)] == [1, 2, 3]
    assert config.curriculum.rounds == [10, 20, 30]


def test_a_host_for_every_world_or_for_one():
    everywhere = ["env.host=remote", "env.address=http://a:1,http://b:1"]
    config = load(["name=x", "env=both", *everywhere, "worlds.babyai.host.address=http://c:1"])
    assert config.worlds["textcraft"].host == {"kind": "remote", "address": "http://a:1,http://b:1"}
    assert config.worlds["babyai"].host == {"kind": "remote", "address": "http://c:1"}


def test_a_run_needs_a_world():
    with pytest.raises(RecipeError, match="no worlds; choose env=textcraft, env=babyai or env=both"):
        preflight.check_config(load(["name=x", "env=none"]))


def test_keys_of_verl():
    config = load(["experiment=smoke", "verl.actor_rollout_ref.actor.clip_ratio_high=0.28", "verl.trainer.nnodes=3"])
    assert config.verl == {"actor_rollout_ref": {"actor": {"clip_ratio_high": 0.28}}, "trainer": {"nnodes": 3}}
    settings = verl_config(config, "somewhere", Path("run"))
    assert (settings.actor_rollout_ref.actor.clip_ratio_high, settings.trainer.nnodes) == (0.28, 3)
    assert defaults().trainer.nnodes != 3


@pytest.mark.parametrize("key", ["foo.bar", "trainer.nosuch", "actor_rollout_ref.actor.clip_ration"])
def test_a_key_that_verl_has_not(key):
    with pytest.raises(RecipeError, match=rf"verl\.{key}"):
        verl_config(load(["experiment=smoke", f"verl.{key}=1"]), "somewhere", Path("run"))


def validated(config, model):
    """verl's configuration after verl's own checks, which include batch sizes against numbers of GPUs."""
    from verl.utils.config import validate_config

    settings = verl_config(config, str(model), Path("run"))
    validate_config(settings, use_reference_policy=config.algorithm.kl_loss > 0, use_critic=settings.critic.enable)
    OmegaConf.resolve(settings)
    assert OmegaConf.missing_keys(settings) <= {"reward.reward_model.rollout.name"}, "no reward model is used"
    return settings


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
@pytest.mark.parametrize("engine", ["cpu", "gpu"])
def test_verl_accepts_every_algorithm(algorithm, engine, model):
    config = load(["experiment=smoke", f"algorithm={algorithm}", f"engine={engine}", "algorithm.tasks=32",
                   "algorithm.minibatch=32"])  # fmt: skip
    settings = validated(config, model)
    assert settings.algorithm.adv_estimator == (ALGORITHMS[algorithm].estimator or "grpo")
    assert settings.critic.enable is ALGORITHMS[algorithm].critic
    assert settings.trainer.device == {"cpu": "cpu", "gpu": "cuda"}[engine]


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["bc.epochs=0", "engine.workers=3"], r"algorithm\.minibatch x algorithm\.samples = 16 .*3 workers"),
        (["bc.batch=6", "engine.workers=4"], r"bc\.batch = 6 .*4 workers"),
        (["algorithm=agentevol", "algorithm.minibatch=6", "engine.workers=2", "engine.nodes=2"], r"minibatch = 6 .*4"),
        (["engine.tensor_parallel=3", "engine.workers=4"], r"engine\.tensor_parallel=3 .*4"),
    ],
)  # fmt: skip
def test_batches_that_workers_cannot_share(overrides, says):
    with pytest.raises(RecipeError, match=says):
        preflight.check_config(load(["experiment=smoke", *overrides]))


@pytest.mark.parametrize("name", LARGE)
def test_recipes_for_gpus(name, model):
    config = load([f"experiment={name}"])
    assert config.engine.device == "cuda"
    gpus = config.engine.workers * config.engine.nodes
    assert gpus == 8
    assert config.model.path == "Qwen/Qwen2.5-3B-Instruct" or "2.5-3B" in config.model.path
    settings = validated(config, model)
    rollout, actor = settings.actor_rollout_ref.rollout, settings.actor_rollout_ref.actor
    context = config.model.prompt_tokens + config.model.response_tokens
    assert rollout.max_model_len == context <= 32768
    assert actor.ppo_max_token_len_per_gpu >= context, "a whole episode must fit into a micro-batch"
    assert rollout.log_prob_max_token_len_per_gpu >= context
    assert config.algorithm.tasks % config.algorithm.minibatch == 0
    assert config.algorithm.minibatch * config.algorithm.samples % gpus == 0
    assert rollout.tensor_model_parallel_size in (1, 2, 4, 8)
    assert config.rollout.turn_tokens < config.model.response_tokens
    assert rollout.free_cache_engine, "weights and cache take turns on a GPU"


def test_model_takes_a_folder_or_an_id_besides_recipes():
    assert load(["name=x", "model=/models/mine"]).model.path == "/models/mine"
    assert load(["name=x", "model=Qwen/Qwen2.5-3B-Instruct"]).model.path == "Qwen/Qwen2.5-3B-Instruct"
    assert load(["name=x", "model=tiny"]).model.path is None
    with pytest.raises(RecipeError, match="nope"):
        load(["name=x", "model=nope"])
