"""What makes an arm, and what it is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import unfinish, write_run

from agentgym_rl.eval.comparison.arms import arms, labels
from agentgym_rl.eval.comparison.runs import read


def made(folder, **facts):
    return read(write_run(folder, **facts))


def named(merged):
    return {arm.label: arm.seeds for arm in merged}


def test_seeds_of_an_algorithm_are_one_arm_and_share_their_cloning(tmp_path):
    runs = [
        made(tmp_path / f"{name}{seed}", algorithm=name, seed=seed, stages={"untrained": 0.0, "bc": 0.2, name: 0.5})
        for name in ("ppo", "grpo")
        for seed in (0, 1)
    ]
    merged = arms(runs)
    assert named(merged) == {"untrained": [0, 1], "bc": [0, 1], "grpo": [0, 1], "ppo": [0, 1]}
    assert len(merged[1].runs) == 4


def test_arms_of_one_algorithm_are_named_by_what_differs(tmp_path):
    stages = {"bc": 0.2, "grpo": 0.5, "control": 0.3}
    runs = [
        made(tmp_path / f"{kind}{seed}", seed=seed, stages=stages, config={"mixture": {"type": kind, "floor": floor}})
        for kind, floor in (("dynamic", 0.1), ("uniform", 0.0))
        for seed in (0, 1)
    ]
    assert list(named(arms(runs))) == [
        "bc", "grpo mixture=dynamic", "grpo mixture=uniform",
        "control of grpo mixture=dynamic", "control of grpo mixture=uniform",
    ]  # fmt: skip


def test_settings_of_cloning_part_the_cloned_arms_too(tmp_path):
    stages = {"untrained": 0.0, "bc": 0.2, "grpo": 0.5}
    runs = [made(tmp_path / f"{epochs}", stages=stages, config={"cloning": {"epochs": epochs}}) for epochs in (2, 4)]
    assert list(named(arms(runs))) == [
        "untrained", "bc cloning.epochs=2", "bc cloning.epochs=4", "grpo cloning.epochs=2", "grpo cloning.epochs=4",
    ]  # fmt: skip


def test_worlds_name_arms_before_their_keys_do(tmp_path):
    runs = [
        made(tmp_path / "one", stages={"grpo": 0.5}, panels=["toy/new"]),
        made(tmp_path / "two", stages={"grpo": 0.5}, panels=["toy/new", "other/new"]),
    ]
    assert list(named(arms(runs))) == ["grpo envs=toy", "grpo envs=other+toy"]


def test_a_world_without_a_share_is_not_trained_on(tmp_path):
    panels = ["toy/new", "other/new"]
    none = {"envs": {"toy": {"share": 1.0}, "other": {"share": 0.0}}}
    both = {"envs": {"toy": {"share": 1.0}, "other": {"share": 1.0}}}
    runs = [
        made(tmp_path / name, stages={"grpo": 0.5}, panels=panels, config=config)
        for name, config in (("none", none), ("both", both))
    ]
    assert list(named(arms(runs))) == ["grpo envs=toy", "grpo envs=other+toy"]


def test_bookkeeping_and_the_seed_in_a_path_part_no_arms(tmp_path):
    runs = [
        read(
            write_run(
                tmp_path / f"{seed}", seed=seed, stages={"grpo": 0.5},
                config={"logger": {"group": f"g{seed}"}, "model": {"path": f"runs/first-seed{seed}/model"}},
            )
        )
        for seed in (1, 11)
    ]  # fmt: skip
    assert named(arms(runs)) == {"grpo": [1, 11]}


def test_runs_that_cannot_stand_beside_each_other(tmp_path):
    first = made(tmp_path / "a", stages={"grpo": 0.5})
    with pytest.raises(ValueError, match=r"a and .*b are the same arm and seed \(grpo, seed 0\)"):
        arms([first, made(tmp_path / "b", stages={"grpo": 0.4})])
    other = write_run(tmp_path / "c", seed=1, stages={"grpo": 0.5}, digests={"toy/new": "else"})
    with pytest.raises(ValueError, match=r"tasks of panel new of toy \(digests d-new and else\)"):
        arms([first, read(other)])
    with pytest.raises(ValueError, match="no runs"):
        arms([])


def test_panels_of_a_run_that_goes_on_are_compared_by_how_they_are_drawn(tmp_path):
    """It says no digest yet: means over seeds would be over different tasks."""

    def going(seed, n):
        stages, units = {"bc": 0.2, "grpo": 0.5}, [{"step": 1, "stage/grpo": 1}]
        folder = unfinish(write_run(tmp_path / f"{seed}", seed=seed, stages=stages, metrics=units), "grpo")
        config = (folder / "config.yaml").read_text()
        (folder / "config.yaml").write_text(config.replace("role: test", f"n: {n}"))
        return read(folder)

    panels = {"toy": {"split": "train", "panels": {"new": {"n": 100}}}}
    whole = made(tmp_path / "whole", stages={"bc": 0.2, "grpo": 0.5}, config={"envs": panels})
    arms([whole, going(1, 100)])
    with pytest.raises(ValueError, match=r"tasks of panel new of toy \(.*n=100 seed=null and .*n=50 seed=null\)"):
        arms([whole, going(2, 50)])


def test_one_key_is_enough_where_it_tells_all_apart():
    configs = [{"a.lr": 1, "b": 1}, {"a.lr": 2, "b": 1}, {"a.lr": 3, "b": 2}]
    assert labels(configs) == ["a.lr=1", "a.lr=2", "a.lr=3"]
    assert labels([{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}]) == ["a=1 b=1", "a=1 b=2", "a=2 b=1"]
    assert labels([{"a": 1}]) == [""]


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)), min_size=2, max_size=6, unique_by=repr))
def test_labels_tell_all_configurations_apart(configs):
    configs = [dict(pairs) for pairs in {tuple(sorted(config.items())) for config in configs}]
    assert len(set(labels(configs))) == len(configs)
