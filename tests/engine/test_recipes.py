"""Recipes compose, mistakes name their key, and verl accepts what becomes of a recipe."""

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("verl")

import toy
from omegaconf import OmegaConf
from sweep import thinned

from agentgym_rl.algorithms import algorithms
from agentgym_rl.algorithms.config import OnlineConfig, PolicyGradientConfig
from agentgym_rl.algorithms.curriculum.turn_limit import curricula
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe import preflight
from agentgym_rl.engine.recipe.compose import RecipeError, load
from agentgym_rl.engine.recipe.config import Config, TinyModelConfig
from agentgym_rl.engine.recipe.digest import digest
from agentgym_rl.engine.recipe.migration import KEYS
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.unused import check_unused
from agentgym_rl.engine.run import tiny
from agentgym_rl.engine.verl.mapping import ESTIMATOR, verl_config
from agentgym_rl.engine.verl.network import largest_tensor, skeleton

EXPERIMENTS = recipes.options("experiment")
PARALLEL = "verl.actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size"
OF_CRITIC = "verl.critic.fsdp.ulysses_sequence_parallel_size"


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A Qwen2 in a folder, as verl's own checks want to read a model's configuration."""
    shape = TinyModelConfig(vocabulary=300, width=16, layers=1, heads=1, kv_heads=1, mlp=16)
    return tiny.build(tmp_path_factory.mktemp("recipes") / "model", shape, ["Count to 3."] * 20, seed=0)


@pytest.mark.parametrize("name", thinned(EXPERIMENTS, 6))
def test_every_experiment_composes(name, model):
    config = load([f"experiment={name}"])
    assert isinstance(config, Config)
    preflight.check_config(Resolved(config))
    assert set(config.envs) and all(env.panels for env in config.envs.values())
    assert config.run.dir == f"runs/{config.name}"
    as_yaml = OmegaConf.create(recipes.to_yaml(config))
    assert as_yaml.algorithm.name == config.algorithm.name
    if config.engine.device == "cuda":
        fits_gpus(name, config, model)


def test_the_command_line_goes_before_an_experiment():
    assert [load(["experiment=demo", *more]).seed for more in ([], ["seed=7"])] == [0, 7]


GROUPS = ("algorithm", "curriculum", "engine", "env", "experiment", "logger", "mixture", "model")


@pytest.mark.parametrize("group", thinned(GROUPS, 4))
def test_every_option_of_every_group_composes(group):
    options = recipes.options(group)
    assert options
    for option in options:
        path = ["model.path=somewhere"] if option == "hf" else []
        if group != "experiment":  # those have a test of their own
            load(["name=x", f"{group}={option}", *path])
    assert {path.name for path in recipes.recipes_dir().iterdir() if path.is_dir()} <= {*GROUPS, "tuned"}


@pytest.mark.parametrize("name", thinned(EXPERIMENTS, 30))
def test_one_word_swaps_the_algorithm_and_nothing_that_is_shared(name):
    """Same budget, same cloned weights; what has no settings of its own says so."""
    tuned, cloned = recipes.options("tuned"), set()
    for algorithm in recipes.options("algorithm"):
        overrides = [f"experiment={name}", f"algorithm={algorithm}"]
        config = load(overrides)
        try:
            preflight.check_config(Resolved(config))
        except RecipeError as error:
            lacks = (
                "behaviour cloning needs dem|algorithm=bc needs cloning.epochs of at least 1|"
                r"algorithm(=(dpo|early_experience|exit|istar)|\.hint=plan) needs whole conversations[;,] "
            )
            assert re.match(lacks, str(error))
            continue
        cloned.add(digest(config, cloned=True))
        if not isinstance(config.algorithm, OnlineConfig):
            continue
        remarks = recipes.remarks(config, overrides)
        spent = config.algorithm.steps * config.algorithm.tasks_per_step * config.algorithm.samples_per_task
        differs = f"budget: {spent:,} instead of {config.budget.episodes:,} training episodes "
        assert (f"untuned: defaults of algorithm={algorithm}" in remarks) == (f"{name}_{algorithm}" not in tuned)
        assert any(remark.startswith(differs) for remark in remarks) == (spent != config.budget.episodes)
        if f"{name}_{algorithm}" in tuned:
            assert spent == config.budget.episodes
            assert config.algorithm != algorithms()[algorithm].Config(name=algorithm, steps=config.algorithm.steps)
    assert len(cloned) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_takes_every_algorithm_curriculum_and_mixture(name):
    """The whole product, from what each word composes to. DPO and cloning may lack what they learn from, and others
    whole conversations."""

    def of(group):
        online = [] if group == "algorithm" else ["algorithm=grpo"]  # some experiments have no training episodes
        return [load([f"experiment={name}", *online, f"{group}={choice}"]) for choice in recipes.options(group)]

    tried = 0
    for config, curriculum, mixture in product(of("algorithm"), of("curriculum"), of("mixture")):
        algorithm = config.algorithm
        combined = replace(config, curriculum=curriculum.curriculum, mixture=mixture.mixture)
        tried += 1
        try:
            preflight.check_config(Resolved(combined))
        except RecipeError:
            assert algorithm.name in ("bc", "distill", "dpo", "early_experience", "exit", "istar")
            continue
        check_unused(Resolved(combined))
    assert tried >= 8 * 5 * 5


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["budget.episodes=100", "budget.tokens=9"], "budget.episodes=100 and budget.tokens=9: a run has one budget"),
        (["budget.episodes=100", "algorithm.steps=3"], "algorithm.steps and budget.episodes both say how long"),
        (["budget.episodes=0"], "budget.episodes must be at least 1, got 0"),
        (["algorithm=bc", "budget.episodes=9"], "budget has no effect: algorithm=bc has no training episodes"),
        (
            ["budget.episodes=null", "budget.updates=9", "algorithm.optimizer.schedule=linear"],
            "schedule=linear falls towards the last step, which budget.updates leaves open",
        ),
        (
            ["budget.episodes=null", "budget.tokens=9", "algorithm=dpo", "algorithm.optimizer.schedule=cosine"],
            "schedule=cosine falls towards the last step, which budget.tokens leaves open",
        ),
        (
            ["budget.episodes=null", "budget.tokens=9", "algorithm=grpo", "engine.mode=colocate_async"],
            "engine.mode=colocate_async rolls out beyond the last step, which budget.tokens leaves open",
        ),
    ],
)
def test_budgets_that_cannot_be(overrides, says):
    with pytest.raises(RecipeError, match=says):
        load(["experiment=smoke", *overrides])


def test_a_schedule_of_each_round_leaves_the_last_round_open():
    config = load(["experiment=smoke", "algorithm=agentevol", "budget.episodes=null", "budget.tokens=9"])
    assert config.algorithm.optimizer.schedule == "linear"


def test_steps_follow_from_the_budget():
    assert load(["experiment=smoke", "budget.episodes=64"]).algorithm.steps == 4
    assert load(["experiment=smoke", "budget.episodes=1"]).algorithm.steps == 1
    fewer = ["experiment=smoke", "algorithm.steps=1"]
    assert recipes.remarks(load(fewer), fewer) == ["budget: 16 instead of 32 training episodes (1 step of 16)"]
    curriculum = ["experiment=textcraft_scaling_inter", "curriculum=linear"]
    assert recipes.remarks(load(curriculum), curriculum) == ["untuned: defaults of curriculum=linear"]


def test_a_recipe_with_a_budget_gives_no_other_steps(tmp_path, monkeypatch):
    (tmp_path / "experiment").mkdir()
    lines = ["# @package _global_", "defaults:", "  - smoke", "algorithm: {steps: 7}"]
    (tmp_path / "experiment" / "mine.yaml").write_text("\n".join(lines))
    monkeypatch.setenv(recipes.FOLDERS, str(tmp_path))
    with pytest.raises(RecipeError, match=r"steps=7 of the recipe has no effect: budget.episodes=32 are \d steps"):
        load(["experiment=mine"])


def test_settings_of_the_demo_are_chosen_on_other_tasks_than_are_reported():
    for name, env in load(["experiment=demo"]).envs.items():
        by_role = {
            role: [panel.split for panel in env.panels.values() if panel.role == role]
            for role in ("validation", "test")
        }
        assert by_role["validation"] == ["val_variants"], name
        assert by_role["test"] and not {"val_variants", env.split} & set(by_role["test"]), name


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["nosuch=1"], "nosuch"),
        (["rollout.max_new_token=5"], r"rollout\.max_new_token is unknown \(did you mean max_new_tokens\?\)"),
        (["envs.textcraft.panel.x=5"], r"envs\.textcraft\.panel"),
        (["envs.textcraft.panels.new_variants.count=5"], r"panels\.new_variants\.count"),
        (["cloning.epochs=many"], r"cloning\.epochs"),
        (["run.control=perhaps"], r"run\.control"),
        (["engine=tpu"], "engine/tpu"),
        (["modle=tiny"], "modle"),
        (["experiment=nothing"], "experiment/nothing"),
        (["seed"], "seed"),
        (
            ["envs.textcraft.panels.new_variants.split=???"],
            r"missing values: envs\.textcraft\.panels\.new_variants\.split",
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
    ("overrides", "says"),
    thinned(
        [
            ("algorithm=dqn", "algorithm/dqn is unknown; choose agentevol, bc, dart, distill, dpo, early_experience, "),
            ("algorithm=gropo", r"algorithm/gropo is unknown \(did you mean grpo\?\)"),
            ("algorithm.name=ppo", "algorithm.name holds the choice that algorithm=ppo makes"),
            (
                "algorithm.gamma=9",
                "algorithm.gamma is unknown; GRPOConfig has steps, tasks_per_step, .*normalise_by_std",
            ),
            ("+algorithm.beta=9", "algorithm.beta is unknown"),
            ("algorithm.search.calls=50", "algorithm.search is unknown"),
            ("algorithm.restart_from=current", "algorithm.restart_from is unknown"),
            ("algorithm.mini_batch_task=4", r"did you mean mini_batch_tasks\?"),
            ("algorithm=bc algorithm.lr=7", "algorithm.lr is unknown; AlgorithmConfig has no keys"),
            ("algorithm.loss=gspo algorithm.loss.dual_clip=2", "algorithm.loss.dual_clip is unknown"),
            ("algorithm.loss=ppo", "algorithm.loss.name='ppo' is unknown; choose cispo, gspo, sapo, turn, vanilla"),
            ("algorithm.filter_groups=true", "algorithm.filter_groups is unknown; here: algorithm.groups.filter"),
            ("algorithm=agentevol algorithm.loss.aggregation=token-mean", "algorithm.loss is unknown"),
            ("algorithm.optimizer.schedule=steep", "'steep' is unknown; choose constant, linear, cosine"),
            ("cloning.optimizer.clip_grad=0", "cloning.optimizer.clip_grad must be greater than 0, got 0"),
            (
                "algorithm.optimizer.min_lr_ratio=0",
                "optimizer.min_lr_ratio has no effect: algorithm.optimizer.schedule=constant does not",
            ),
            ("cloning.epochs=0 cloning.optimizer.warmup_steps=1", "cloning.optimizer has no effect: cloning.epochs=0"),
            ("algorithm.loss.aggregation=nonsense", "'nonsense' is unknown; choose token-mean, seq-mean-token-sum"),
            ("algorithm=ppo algorithm.level=word", "algorithm.level='word' is unknown; choose token, turn"),
            ("algorithm=agentevol algorithm.restart_from=bc", "'bc' is unknown; choose base, current"),
            ("algorithm=agentevol algorithm.keep_best=true", "give a panel role=validation"),
            ("algorithm=agentevol algorithm.success_threshold.maze=0.5", "names maze, which the run does not have"),
            ("algorithm=agentevol algorithm.search.calls=-1", "search.calls must be at least 0, got -1"),
            ("algorithm.mini_batch_tasks=0", "algorithm.mini_batch_tasks must be at least 1, got 0"),
            ("algorithm.samples_per_task=1", "algorithm=grpo compares episodes of a task"),
            ("envs.textcraft.panels.new_variants.role=final", "role='final' is unknown; choose test, validation"),
            ("envs.textcraft.panels.new_variants.n=0", "envs.textcraft.panels.new_variants.n must be at least 1"),
            ("envs.textcraft.panels.new_variants.samples=0", "panels.new_variants.samples must be at least 1, got 0"),
            ("envs.textcraft.demonstrations=0", "envs.<name>.demonstrations or envs.<name>.demonstrations_file"),
            ("engine.device=tpu", "engine.device='tpu' is unknown.*; choose cpu, cuda"),
            ("algorithm.lr=inf", "algorithm.lr must be greater than 0, got inf"),
            ("algorithm.loss.entropy=nan", "algorithm.loss.entropy=nan is no number"),
            ("cloning.optimizer.betas=[0.9,nan]", r"cloning.optimizer.betas\[1\]=nan is no number"),
            ("engine.workers=0", "engine.workers must be at least 1, got 0"),
            ("rollout.style=loud", "rollout.style='loud' is unknown; choose agentgym, compact"),
            ("rollout.max_new_tokens=0", "rollout.max_new_tokens must be greater than 0"),
            ("logger.wandb=yes", "logger.wandb="),
            ("mixture=shaken", "mixture/shaken is unknown; choose dynamic, fixed"),
            ("mixture=dynamic mixture.value=regret", "mixture.value='regret' is unknown; choose variance, failure"),
            ("mixture=dynamic mixture.tasks=on", "mixture.tasks="),
            ("mixture.smoothing=0.1", "mixture.smoothing is unknown"),
            ("mixture.type=dynamic", "mixture.type holds the choice that mixture=dynamic makes"),
            ("model=qwen2.5-3b model.width=3", "model.width is unknown"),
            ("rollout.context=window algorithm=dpo", "algorithm=dpo needs whole conversations"),
            ("algorithm=agentevol algorithm.hindsight.weight=0", "hindsight.weight must be greater than 0, got 0"),
            ("rollout.context=window algorithm=exit", "algorithm=exit needs whole conversations"),
            ("algorithm=exit algorithm.restarts.rate=0", "algorithm.restarts.rate must be greater than 0, got 0"),
            ("algorithm=early_experience algorithm.iwm_lr=0", "algorithm.iwm_lr must be greater than 0, got 0"),
            ("algorithm=early_experience algorithm.alternatives=17", "alternatives must be at most 16, got 17"),
            ("algorithm=early_experience algorithm.mode=both algorithm.alternatives=0", "set alternatives above 0"),
            ("algorithm=early_experience algorithm.epochs=1", "budget=equal takes from the passes after the first"),
            (
                "algorithm=early_experience algorithm.alternatives=0 algorithm.include_expert=false",
                "alternatives=0 with include_expert=false observes nothing",
            ),
            ("algorithm=exit algorithm.restarts.turns=some", "turns='some' is unknown; choose whole, after"),
            ("algorithm=exit algorithm.base=ppo", "algorithm.base='ppo' is unknown; choose grpo, rloo, gigpo"),
        ],
        3,
    ),
)
def test_values_and_keys_that_do_not_fit(overrides, says):
    with pytest.raises(RecipeError, match=says):
        preflight.check_config(Resolved(load(["experiment=smoke", *overrides.split()])))


@pytest.mark.slow
def test_an_environment_that_cannot_replay_is_refused_where_the_algorithm_does(toy_recipes, monkeypatch):
    spec = toy.Counter.spec.fget
    monkeypatch.setattr(toy.Counter, "spec", property(lambda env: replace(spec(env), replayable=False)))
    both = ["experiment=counter", "+env=generous"]
    with pytest.raises(RecipeError, match=r"algorithm=exit replays .*, which counter, generous cannot; leave such"):
        Resolved(load([*both, "algorithm=exit"])).ask_envs()
    with pytest.raises(RecipeError, match="which generous cannot"):
        Resolved(load([*both, "algorithm=exit", "envs.counter.share=0"])).ask_envs()
    shown = [*both, "algorithm=early_experience", "envs.generous.demonstrations=0", "envs.counter.demonstrations=2"]
    with pytest.raises(RecipeError, match="which counter cannot; leave such environments without demonstrations"):
        Resolved(load(shown)).ask_envs()
    Resolved(load([*shown, "algorithm.alternatives=0"])).ask_envs()
    for allowed in ("algorithm=grpo", "algorithm=exit algorithm.restarts.share=0"):
        Resolved(load([*both, *allowed.split()])).ask_envs()


def test_an_environment_that_tells_no_goals_is_refused_where_the_algorithm_relabels():
    chosen = ["experiment=smoke", "+env=wordle", "algorithm=agentevol", "algorithm.hindsight.max_per_goal=1"]
    with pytest.raises(RecipeError, match=r"hindsight.max_per_goal asks which other goals .*, which wordle cannot; le"):
        Resolved(load(chosen)).ask_envs()
    Resolved(load([*chosen, "envs.wordle.share=0"])).ask_envs()
    Resolved(load([*chosen[:-1], "algorithm.hindsight.max_per_goal=0"])).ask_envs()


ALONE = "one environment has all tasks of every step"


@pytest.mark.parametrize(
    ("overrides", "says"),
    thinned([
        *((f"mixture=dynamic mixture.{key}", f"mixture.{key.partition('=')[0]} has no effect: {why}") for key, why in (
            ("value=failure", ALONE), ("smoothing=0.5", ALONE), ("floor=0.2", "mixture.tasks=off"),
            ("temperature=2", "mixture.tasks=off"), ("decay=0.5", "mixture.tasks=off"),
        )),
        ("mixture=sequential mixture.steps=2", f"mixture.steps has no effect: {ALONE}"),
        ("mixture=sequential mixture.order=[textcraft]", f"mixture.order has no effect: {ALONE}"),
        ("envs.textcraft.harness.command=ls rollout.invalid_limit=3", "invalid_limit has no effect: programs act in"),
        ("envs.textcraft.harness.command=ls rollout.step_seconds=9", "step_seconds has no effect: programs act in"),
        ("envs.textcraft.share=0.5", "share has no effect: no other environment has a share"),
        ("cloning.epochs=0 cloning.observation_weight=0.1", "observation_weight has no effect: nothing is cloned"),
        ("cloning.epochs=0 envs.textcraft.demonstrations=9", "demonstrations has no effect: nothing is cloned"),
        ("cloning.epochs=0 envs.textcraft.demonstrations_file=a", "demonstrations_file has no effect: nothing is"),
        ("algorithm=reinforce_pp algorithm.shaping.normalise=true", "normalise has no effect: advantages are"),
        ("algorithm=agentevol algorithm.gate=flips", "gate has no effect: algorithm.keep_best=false undoes"),
        ("algorithm=early_experience algorithm.alternatives=0 algorithm.states=1", "states has no effect: algorithm"),
        ("algorithm=early_experience algorithm.iwm_epochs=0 algorithm.iwm_lr=1", "iwm_lr has no effect: alg"),
        ("algorithm=early_experience algorithm.reflection_share=1", "reflection_share has no effect: alg"),
        ("algorithm=early_experience algorithm.mode=reflection algorithm.budget=extra", "budget has no effect: alg"),
        ("cloning.mix_share=0.8", "mix_share has no effect: cloning.mix_file=null mixes nothing in"),
        ("cloning.epochs=0 cloning.mix_file=a", "mix_file has no effect: cloning.epochs=0 skips cloning"),
        ("cloning.epochs=0 cloning.learn_invalid=false", "learn_invalid has no effect: nothing is cloned"),
    ], 3),
)  # fmt: skip
def test_keys_without_an_effect(overrides, says):
    """One environment, or nothing that clones."""
    with pytest.raises(RecipeError, match=says):
        load(["experiment=smoke", *overrides.split()])


@pytest.mark.parametrize(
    "overrides",
    thinned(
        [
            "env=both mixture=dynamic mixture.floor=0.2 mixture.smoothing=0.5",
            "env=both mixture=sequential mixture.steps=2",
            "mixture=dynamic mixture.tasks=task mixture.floor=0.2",
            "env=both envs.textcraft.share=0.5",
            "cloning.epochs=0 run.control=true cloning.observation_weight=0.1 envs.textcraft.demonstrations=9",
            "cloning.epochs=0 algorithm=agentevol cloning.observation_weight=0.1 envs.textcraft.demonstrations=9",
            "cloning.epochs=0 envs.textcraft.demonstrations=0",
            "algorithm=reinforce_pp algorithm.shaping.normalise=true algorithm.gamma=0.9",
            "algorithm=reinforce_pp algorithm.shaping.normalise=true algorithm.shaping.overlong_turns=2",
            "algorithm=reinforce_pp algorithm.shaping.normalise=true env=both",
            "rollout.context=fold algorithm.observation_weight=0.1",
        ],
        3,
    ),
)
def test_the_same_keys_where_they_have_one(overrides):
    load(["experiment=smoke", *overrides.split()])


def test_observations_in_prompts_have_no_loss_beside_a_policy_gradient():
    with pytest.raises(RecipeError, match=r"algorithm\.observation_weight has no effect: rollout\.context=recent"):
        load(["experiment=verl_agent_webshop", "algorithm.observation_weight=0.1"])


def test_null_takes_out_of_a_recipe_what_has_no_effect_any_more():
    overrides = ["experiment=smollm2", "algorithm=grpo", "algorithm.groups.filter=false"]
    with pytest.raises(RecipeError, match=r"refills has no effect: .*; algorithm\.groups\.refills=null takes it out"):
        load(overrides)
    assert load([*overrides, "algorithm.groups.refills=null"]).algorithm.groups.refills is None


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["curriculum=steep"], "curriculum/steep is unknown.*; choose fixed, growing, linear, stepwise"),
        (["curriculum=stepwise", "curriculum.rounds=[3]"], "two or more"),
        (["curriculum.steps=3"], "curriculum.steps is unknown"),
        (["envs.textcraft.curriculum.round=[3]"], r"envs\.textcraft\.curriculum\.round is unknown"),
        (["envs.textcraft.curriculum.rounds=[0]"], r"envs\.textcraft\.curriculum\.rounds=\[0\] .*at least 1"),
        (["envs.textcraft.curriculum.type=steep"], r"envs\.textcraft\.curriculum\.type='steep' is unknown"),
        (["algorithm.rounds_ctrl.type=linear"], "rounds_ctrl.type='linear' is unknown; choose fixed, scaling_inter"),
        (["algorithm.rounds_ctrl.type=fixed"], "rounds_ctrl.rounds is missing"),
        (["algorithm.rounds_ctrl.type=fixed", "algorithm.rounds_ctrl.round=4"], "rounds_ctrl.round is unknown"),
        (["algorithm.rounds_ctrl.type=fixed", "algorithm.rounds_ctrl.rounds=4", "curriculum=stepwise"], "both"),
    ],
)
def test_curricula_out_of_range(overrides, says):
    with pytest.raises(RecipeError, match=says):
        preflight.check_config(Resolved(load(["experiment=smoke", *overrides])))


def test_keys_of_agentgym_rl_name_ours():
    script = ["data.train_file=a.json", "actor_rollout_ref.rollout.n=8", "+trainer.val_only=true"]
    with pytest.raises(RecipeError) as caught:
        load(["experiment=smoke", *script, "run.save_every=3"])
    assert str(caught.value).splitlines() == [
        "data.train_file is AgentGym-RL's; here: envs.<name>.split: a split's name or the same file",
        "actor_rollout_ref.rollout.n is AgentGym-RL's; here: algorithm.samples_per_task",
        "trainer.val_only is verl's, and has no effect: agentgym-rl eval policy=runs/<name> evaluates a run",
        "All keys: docs/from-agentgym-rl.md",
    ]


def test_the_page_lists_the_same_keys():
    page = (Path(__file__).parents[2] / "docs" / "from-agentgym-rl.md").read_text()
    rows = [line.replace("`", "") for line in page.splitlines() if line.startswith("| `")]
    assert [key for key, ours in KEYS.train.items() if f"| {key} | {ours} |" not in rows] == []


def limits(*overrides, steps=(1, 2, 3)):
    config = load(["experiment=smoke", *overrides])
    return [Resolved(config).curriculum.max_turns("textcraft", step) for step in steps]


def test_agentgym_rls_keys_are_a_curriculum():
    theirs = ["type=scaling_inter_stepwise", "rounds=[4,6]", "steps_scaling_inter=10"]
    theirs = [f"algorithm.rounds_ctrl.{override}" for override in theirs]
    ours = ["curriculum=stepwise", "curriculum.rounds=[4,6]", "curriculum.steps=10"]
    assert load(["experiment=smoke", *theirs]) == load(["experiment=smoke", *ours])
    assert limits(*theirs, steps=(1, 10, 11)) == [4, 4, 6]
    fixed = ["algorithm.rounds_ctrl.type=fixed", "algorithm.rounds_ctrl.rounds=15"]
    assert limits(*fixed) == limits(*fixed, "algorithm.rounds_ctrl.steps_scaling_inter=9") == [15, 15, 15]


def test_an_environments_own_curriculum_goes_before_that_of_the_run():
    overrides = [f"envs.textcraft.curriculum.{override}" for override in ("type=linear", "rounds=[1,3]", "steps=2")]
    assert limits("curriculum=stepwise", *overrides) == [1, 2, 3]
    run = ["curriculum=stepwise", "curriculum.rounds=[2,4]", "curriculum.steps=2"]
    assert limits(*run, "envs.textcraft.curriculum.steps=1") == [2, 4, 4]
    assert limits(*run, "envs.textcraft.curriculum.type=linear") == [2, 3, 4], "other keys are those of the run"
    assert limits(*run, "envs.textcraft.curriculum={type: fixed, rounds: [7]}") == [7, 7, 7]
    own = Resolved(load(["experiment=smoke", "curriculum=stepwise", "envs.textcraft.curriculum.type=linear"]))
    linear = curricula()["linear"].Config(type="linear")
    assert own.curriculum.limits["textcraft"].config == linear, "what the run leaves out is not shared"
    assert limits("envs.textcraft.curriculum.type=stepwise") == [10, 10, 10]


def test_a_host_for_every_environment_or_for_one():
    everywhere = ["env.host=remote", "env.address=http://a:1,http://b:1"]
    config = load(["name=x", "env=both", *everywhere, "envs.babyai.host.address=http://c:1"])
    assert config.envs["textcraft"].host == {"kind": "remote", "address": "http://a:1,http://b:1"}
    assert config.envs["babyai"].host == {"kind": "remote", "address": "http://c:1"}


def test_a_run_needs_an_environment():
    with pytest.raises(RecipeError, match="no environments; choose env=textcraft, env=babyai or env=both"):
        preflight.check_config(Resolved(load(["name=x", "env=none"])))


def test_keys_of_verl():
    config = load(["experiment=smoke", "verl.actor_rollout_ref.actor.optim.optimizer=Adam"])
    assert config.verl == {"actor_rollout_ref": {"actor": {"optim": {"optimizer": "Adam"}}}}
    assert verl_config(Resolved(config), "somewhere", Path("run")).actor_rollout_ref.actor.optim.optimizer == "Adam"


@pytest.mark.parametrize("key", ["foo.bar", "trainer.nosuch", "actor_rollout_ref.actor.clip_ration"])
def test_a_key_that_verl_has_not(key):
    with pytest.raises(RecipeError, match=rf"verl\.{key}"):
        verl_config(Resolved(load(["experiment=smoke", f"verl.{key}=1"])), "somewhere", Path("run"))


@pytest.mark.slow
def test_weights_travel_in_a_bucket_that_the_largest_tensor_fits_into(model):
    def bucket(largest, *overrides):
        settings = verl_config(Resolved(load(["experiment=smoke", *overrides])), "somewhere", Path("run"), largest)
        return settings.actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes

    assert bucket(0) == bucket(64 << 20) == 64
    assert bucket((64 << 20) + 1) == 65 and bucket(49_152 * 576 * 4) == 108
    key = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
    assert bucket(49_152 * 576 * 4, f"verl.{key}=512") == 512
    assert bucket(49_152 * 576 * 4, "engine=gpu") == bucket(0, "engine=gpu") > 64
    vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
    assert largest_tensor(skeleton(str(model))) == 4 * vocabulary * 16


def validated(config, model):
    """verl's configuration after verl's own checks, which include batch sizes against numbers of GPUs."""
    from verl.utils.config import validate_config

    settings = verl_config(Resolved(config), str(model), Path("run"))
    validate_config(
        settings, use_reference_policy=settings.actor_rollout_ref.actor.use_kl_loss, use_critic=settings.critic.enable
    )
    OmegaConf.resolve(settings)
    assert OmegaConf.missing_keys(settings) <= {"reward.reward_model.rollout.name"}, "no reward model is used"
    return settings


@pytest.mark.parametrize(("algorithm", "engine"), thinned(product(sorted(algorithms()), ["cpu", "gpu"]), 6))
def test_verl_accepts_every_algorithm(algorithm, engine, model):
    kind = algorithms()[algorithm]
    tasks = [f"algorithm.{key}=32" for key in ("tasks_per_step", "mini_batch_tasks") if hasattr(kind.Config, key)]
    config = load(["experiment=smoke", f"algorithm={algorithm}", f"engine={engine}", *tasks])
    settings = validated(config, model)
    needs = kind.needs(config.algorithm)
    assert settings.algorithm.adv_estimator == (needs.estimator.name if needs.estimator else ESTIMATOR)
    assert settings.critic.enable is (needs.critic is not None)
    assert settings.trainer.device == {"cpu": "cpu", "gpu": "cuda"}[engine]


@pytest.mark.slow
def test_sizes_of_a_pretrained_model_on_a_cpu_reach_verl(model):
    cpu, pretrained = (
        validated(load(["experiment=smoke", f"engine={name}"]), model) for name in ("cpu", "cpu_pretrained")
    )
    assert pretrained.trainer.device == cpu.trainer.device == "cpu"
    before, after = cpu.actor_rollout_ref, pretrained.actor_rollout_ref
    assert after.actor.ppo_max_token_len_per_gpu < before.actor.ppo_max_token_len_per_gpu
    assert after.actor.optim.override_optimizer_config.fused and not before.actor.optim.override_optimizer_config
    assert after.rollout.engine_kwargs.vllm.block_size == 32
    assert after.rollout.max_num_seqs < before.rollout.max_num_seqs


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["cloning.epochs=0", "engine.workers=3"], r"mini_batch_tasks x algorithm\.samples_per_task = 16 .*3 workers"),
        (["cloning.mini_batch_trajectories=6", "engine.workers=4"], r"mini_batch_trajectories = 6 .*4 workers"),
        (["algorithm=agentevol", "algorithm.mini_batch_trajectories=6", "engine.workers=2", "engine.nodes=2"],
         r"mini_batch_trajectories = 6 .*4"),
        (["cloning.mini_batch_trajectories=6", "engine.workers=8", f"{PARALLEL}=2"],
         r"mini_batch_trajectories = 6 .*4 groups of 2 workers"),
        (["engine.workers=4", f"{PARALLEL}=3"], r"size=3 does not divide engine\.workers x engine\.nodes = 4"),
        (["engine.workers=4", f"{PARALLEL}=8"], r"size=8 does not divide engine\.workers x engine\.nodes = 4"),
        (["engine.workers=4", f"{PARALLEL}=0"], r"size=0 does not divide engine\.workers x engine\.nodes = 4"),
        (["engine.tensor_parallel=3", "engine.workers=4"], r"engine\.tensor_parallel=3 .*4"),
    ],
)  # fmt: skip
def test_batches_that_workers_cannot_share(overrides, says):
    with pytest.raises(RecipeError, match=says):
        preflight.check_config(Resolved(load(["experiment=smoke", *overrides])))


def test_workers_that_split_sequences_share_a_batch_as_one():
    sizes = ["cloning.mini_batch_trajectories=6", "engine.workers=4", f"{PARALLEL}=2"]
    preflight.check_config(Resolved(load(["experiment=smoke", *sizes])))


@pytest.mark.parametrize(("policy", "critic"), [(2, 1), (1, 2), (2, 4)])
def test_a_critic_splits_sequences_as_the_policy_does(policy, critic):
    """Else its updates would have other rows than those that the policy's weights are computed for."""
    smoke = ["experiment=smoke", "engine.workers=4"]
    given = [f"{key}={size}" for key, size in ((PARALLEL, policy), (OF_CRITIC, critic)) if size > 1]  # verl's own is 1
    with pytest.raises(RecipeError, match=re.escape(f"{OF_CRITIC}={critic} must equal {PARALLEL}={policy}")):
        preflight.check_config(Resolved(load([*smoke, "algorithm=ppo", *given])))
    preflight.check_config(Resolved(load([*smoke, "algorithm=ppo", f"{PARALLEL}={policy}", f"{OF_CRITIC}={policy}"])))
    preflight.check_config(Resolved(load([*smoke, f"{PARALLEL}={policy}"])))  # has no critic


def fits_gpus(name, config, model):
    """A recipe for GPUs: its batches, lengths and memory go together."""
    gpus = config.engine.workers * config.engine.nodes
    assert gpus == (1 if name == "textcraft_one_gpu" else 2 if "1.5B" in config.model.path else 8)
    settings = validated(config, model)
    rollout, actor = settings.actor_rollout_ref.rollout, settings.actor_rollout_ref.actor
    context = config.model.prompt_tokens + config.model.response_tokens
    assert rollout.max_model_len == context <= 32768
    assert actor.ppo_max_token_len_per_gpu >= context, "a whole episode must fit into a micro-batch"
    assert rollout.log_prob_max_token_len_per_gpu >= context
    if isinstance(config.algorithm, PolicyGradientConfig):
        assert config.algorithm.tasks_per_step % config.algorithm.mini_batch_tasks == 0
        assert config.algorithm.mini_batch_tasks * config.algorithm.samples_per_task % gpus == 0
    assert rollout.tensor_model_parallel_size in (1, 2, 4, 8)
    assert config.rollout.max_new_tokens <= config.model.response_tokens
    assert rollout.free_cache_engine, "weights and cache take turns on a GPU"


def test_model_takes_a_folder_or_an_id_besides_options():
    assert load(["name=x", "model=/models/mine"]).model.path == "/models/mine"
    assert load(["name=x", "model=Qwen/Qwen2.5-3B-Instruct"]).model.path == "Qwen/Qwen2.5-3B-Instruct"
    assert load(["name=x", "model=tiny"]).model.path is None
    assert load(["name=x", "model=smollm2_135m"]).model.path == "smollm2_135m"
    hub = load(["name=x", "model=smollm2_135m:hub"]).model
    assert hub.path == "smollm2_135m:hub" and hub.prompt_tokens == 1024
    with pytest.raises(RecipeError, match="nope"):
        load(["name=x", "model=nope"])


def test_dart_has_settings_wherever_grpo_has():
    tuned = recipes.options("tuned")
    of_grpo, of_dart = (
        {name.removesuffix(suffix) for name in tuned if name.endswith(suffix)} for suffix in ("_grpo", "_dart")
    )
    assert of_grpo == of_dart
