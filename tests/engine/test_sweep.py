"""Sweeps spelled out as jobs, checked before anything starts."""

from dataclasses import replace

import pytest

pytest.importorskip("verl")

from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.compose import RecipeError
from agentgym_rl.engine.run.folder import RunFolder, RunFolderError, State
from agentgym_rl.engine.run.sweep import by_engine, expand, group_name, jobs


def swept(*overrides):
    return [overrides_of_job for overrides_of_job, _ in expand(overrides)]


def test_every_combination_the_last_changing_fastest():
    expanded = expand(["experiment=smoke", "algorithm=grpo,ppo", "cloning.epochs=3", "seed=1,2"])
    assert [overrides_of_job for overrides_of_job, _ in expanded] == [
        ["algorithm=grpo", "seed=1"], ["algorithm=grpo", "seed=2"], ["algorithm=ppo", "seed=1"],
        ["algorithm=ppo", "seed=2"],
    ]  # fmt: skip
    assert expanded[1][1] == ["experiment=smoke", "algorithm=grpo", "cloning.epochs=3", "seed=2"]


def test_hydras_own_grammar():
    assert swept("seed=range(1,4)") == [["seed=1"], ["seed=2"], ["seed=3"]]
    assert ["mixture=fixed"] in swept("mixture=glob(*)") and ["mixture=fixed"] not in swept(
        "mixture=glob(*,exclude=f*)"
    )
    assert swept("verl.trainer.nnodes=1,2") == [["verl.trainer.nnodes=1"], ["verl.trainer.nnodes=2"]]
    assert swept("model=/a/b,Qwen/c") == [["model=/a/b"], ["model=Qwen/c"]]
    assert swept("algorithm=grpo,./mine.py:Mine") == [["algorithm=grpo"], ["algorithm=./mine.py:Mine"]]
    assert swept("env.address=http://a:1,http://b:1") == [["env.address=http://a:1"], ["env.address=http://b:1"]]
    assert swept("algorithm.lr=choice(1e-3,1e-4)") == [["algorithm.lr=0.001"], ["algorithm.lr=0.0001"]]
    for word in ("name='a,b'", "envs.toy.difficulty=[a,b]", "name=x-${algorithm.name}", "envs.toy.options={n: 1}"):
        assert expand([word]) == [([], [word])]


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("algorithm.lr=interval(0,1)", "has no end of values"),
        ("mixture=glob(nothing*)", "matches nothing"),
        ("seed", "'seed' is not KEY=VALUE"),
        ("seed=(1", "seed="),
    ],
)
def test_sweeps_that_are_none(override, says):
    with pytest.raises(RecipeError, match=says):
        expand([override])


@pytest.fixture
def sweep(toy_recipes):
    """Overrides of a sweep over toy runs in folders of their own."""
    return ["experiment=counter", f"run.dir={toy_recipes}/${{name}}"]


@pytest.mark.slow
def test_jobs_are_composed_and_share_a_group(sweep, toy_recipes):
    planned = jobs([*sweep, "name=n-${algorithm.name}-${seed}", "algorithm=grpo,agentevol", "seed=0,1"])
    assert [job.label for job in planned] == [
        "algorithm=grpo seed=0", "algorithm=grpo seed=1", "algorithm=agentevol seed=0", "algorithm=agentevol seed=1",
    ]  # fmt: skip
    assert [job.config.name for job in planned] == ["n-grpo-0", "n-grpo-1", "n-agentevol-0", "n-agentevol-1"]
    assert {job.config.logger.group for job in planned} == {"counter"}
    assert {job.standing for job in planned} == {"new"}
    assert not toy_recipes.exists(), "looking at jobs leaves nothing behind"
    assert {job.config.logger.group for job in jobs([*sweep, "name=n${seed}", "seed=0,1", "logger.group=mine"])} == {
        "mine"
    }


@pytest.mark.slow
def test_a_bad_job_is_named_before_anything_starts(sweep):
    with pytest.raises(
        RecipeError,
        match=r"job 2 of 2 \(algorithm\.mini_batch_tasks=0\): algorithm\.mini_batch_tasks must be at least 1",
    ):
        jobs([*sweep, "name=n${algorithm.mini_batch_tasks}", "algorithm.mini_batch_tasks=4,0"])
    with pytest.raises(RecipeError, match=r"job 2 of 2 \(envs\.counter\.panels\.test\.n=99\): n is 99"):
        jobs([*sweep, "name=n${envs.counter.panels.test.n}", "envs.counter.panels.test.n=4,99"])
    with pytest.raises(RecipeError, match=r"job 2 of 2 \(algorithm=nope\): .*algorithm/nope"):
        jobs([*sweep, "algorithm=grpo,nope"])
    with pytest.raises(RecipeError, match=r"job 2 of 2 \(model=/no/such\): model\.path=/no/such does not exist"):
        jobs([*sweep, "model=tiny,/no/such"])


@pytest.mark.slow
def test_jobs_that_would_share_a_folder(sweep):
    with pytest.raises(RecipeError) as caught:
        jobs([*sweep, "name=n-${seed}", "algorithm=grpo,ppo", "seed=0,1"])
    assert "jobs 1 (algorithm=grpo seed=0) and 3 (algorithm=ppo seed=0) would share the folder" in str(caught.value)
    assert "put algorithm into the name, e.g. 'name=my-sweep-${algorithm.name}-${seed}'" in str(caught.value)
    with pytest.raises(RecipeError, match="jobs 1 and 2 are the same"):
        jobs([*sweep, "seed=0,0"])
    with pytest.raises(RecipeError, match="env cannot be put into a name; start them by commands"):
        jobs([*sweep, "env=none,textcraft"])


@pytest.mark.slow
def test_the_name_that_is_proposed_works(sweep):
    assert len(jobs([*sweep, "name=my-sweep-${algorithm.name}-${seed}", "algorithm=grpo,ppo", "seed=0,1"])) == 4


@pytest.mark.slow
def test_how_far_jobs_are(sweep, toy_recipes):
    overrides = [*sweep, "name=n${seed}", "seed=0,1,2"]
    for job in jobs(overrides)[:2]:
        folder = RunFolder(toy_recipes / job.config.name, recipes.identity(job.config), resume=True)
        folder.save_state(State(stage=1))
        if job.config.seed == 0:
            folder.write_summary({})
    assert [job.standing for job in jobs(overrides)] == ["finished", "interrupted", "new"]
    with pytest.raises(RunFolderError, match=r"another configuration \(cloning\.lr=1e-05 there, 0\.5 here"):
        jobs([*overrides, "cloning.lr=0.5"])
    with pytest.raises(RunFolderError, match="already holds a run"):
        jobs([*overrides, "run.resume=false"])


@pytest.mark.parametrize(
    ("overrides", "names", "group"),
    [
        (["experiment=demo"], ["a", "b"], "demo"),
        (["experiment=demo,other"], ["abl-demo-0", "abl-other-0"], "abl"),
        ([], ["abl-grpo-seed0", "abl-grpo-seed1"], "abl-grpo"),
        ([], ["abl/grpo-0", "abl/ppo-0"], "abl"),
        ([], ["grpo", "ppo"], None),
        ([], ["alone-seed0"], "alone-seed0"),
    ],
)
def test_the_group_is_what_jobs_share(overrides, names, group):
    assert group_name(overrides, names) == group


@pytest.mark.slow
def test_a_job_is_the_run_of_its_own_command(sweep):
    [job, _] = jobs([*sweep, "name=n${seed}", "seed=0,1"])
    alone = recipes.load([*sweep, "name=n${seed}", "seed=0"])
    assert replace(job.config, logger=replace(job.config.logger, group=None)) == alone


@pytest.mark.slow
def test_jobs_that_share_an_engine_follow_each_other(toy_recipes):
    swept = ["experiment=counter", "algorithm=grpo,ppo,rloo", "seed=1,2", "name=x-${algorithm.name}-${seed}",
             "run.dir=runs/${name}"]  # fmt: skip
    listed = by_engine(jobs(swept))
    assert [(job.config.algorithm.name, job.config.seed) for job in listed] == [
        ("grpo", 1), ("rloo", 1), ("grpo", 2), ("rloo", 2), ("ppo", 1), ("ppo", 2),
    ]  # fmt: skip


@pytest.mark.slow
def test_looking_at_a_run_changes_no_record(sweep):
    words = [*sweep, "name=seen"]
    (job,) = jobs(words)
    RunFolder(job.folder, recipes.identity(job.config), True, "as it ran").save_state(State())
    (job,) = jobs([*words, "run.save_every=5"], show=True)
    assert (job.standing, (job.folder / "config.yaml").read_text()) == ("interrupted", "as it ran")
