"""How rollouts and updates share time, without an engine."""

from functools import cache
from types import SimpleNamespace

import pytest
from sweep import thinned

pytest.importorskip("verl")

import transfer_queue as tq
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta

from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe.compose import RecipeError
from agentgym_rl.engine.recipe.preflight import check_config
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.verl import mapping as verl_config
from agentgym_rl.engine.verl.buffer import AsyncEpisodeBuffer
from agentgym_rl.engine.verl.learner import Learner
from agentgym_rl.engine.verl.modes import ColocateTrainer
from agentgym_rl.engine.verl.sampler import Sampler
from agentgym_rl.engine.verl.settings import Settings
from agentgym_rl.engine.verl.trainer import AgentTrainer


@cache
def settings(*overrides):
    """verl's settings, read only."""
    return verl_config.verl_config(Resolved(recipes.load(["experiment=smoke", *overrides])), "m", recipes.Path("run"))


class Sampled(Exception):
    """The step waits for its batch."""


def sampler(ahead):
    """A sampler that waits for its first batch, and what it submitted."""
    sent = []

    def sample():
        raise Sampled

    verl = SimpleNamespace(
        parameter_sync_step=1, on_step_begin=lambda: None, on_sample_begin=sample, timing_raw={},
        replay_buffer=SimpleNamespace(),
    )  # fmt: skip
    weights = SimpleNamespace(ensure_synced=lambda step: None)
    made = Sampler(verl, Settings(defaults()), weights, SimpleNamespace(begin_step=lambda: None), ahead)
    made.submit = lambda rows, due: sent.append((rows, due))
    return made, sent


def defaults(**changed):
    """verl's settings, to be written."""
    config = settings().copy()
    for block, keys in changed.items():
        OmegaConf.update(config, block, keys)
    return config


def rows(number, redraw, tasks):
    return [(number, redraw, task) for task in range(3 if tasks is None else tasks)]


def step(made, number, steps, global_step):
    """Start a training step."""
    made.verl.global_steps = global_step
    with pytest.raises(Sampled):
        next(made.batches(number, steps, rows))


def test_a_step_tells_how_many_of_its_tasks_are_done_while_it_waits():
    made, _ = sampler(0)
    made.verl.global_steps, told = 1, []
    with pytest.raises(Sampled):
        next(made.batches(0, 1, rows, progress=lambda done, total: told.append((done, total))))
    made.verl.replay_buffer.progress(3, 8)
    assert told == [(3, 8)]


def test_each_step_starts_its_own_episodes_or_those_ahead_of_it():
    for ahead in (0, 2):
        made, sent = sampler(ahead)
        for number in range(5):
            step(made, number, 5, 10 + number)
        assert [(batch[0][0], due) for batch, due in sent] == [(number, 10 + number) for number in range(5)]
    made, sent = sampler(2)
    step(made, 0, 5, 10)
    assert [due for _, due in sent] == [10, 11, 12]


def test_a_shared_trainer_forgets_how_the_weights_of_another_run_were_sent():
    weights = SimpleNamespace(sync_metrics={"sync/log_prob_difference": 0.1}, restore_critic=lambda: None)
    made, sent = sampler(1)
    trainer = SimpleNamespace(
        settings=Settings(defaults()), learner=SimpleNamespace(loss=None), weights=weights, sampler=made
    )
    step(made, 0, 1, 10)
    AgentTrainer.configure(trainer, defaults())
    assert weights.sync_metrics == {}
    sent.clear()
    step(made, 1, 3, 5)
    assert [due for _, due in sent] == [5, 6], "a run that goes on where another one ended has nothing under way"


def test_replacements_are_other_draws():
    made, sent = sampler(1)
    step(made, 0, 5, 10)
    sent.clear()
    made.redraw(2)
    made.redraw(1)
    assert sent == [([(0, 1, 0), (0, 1, 1)], 10), ([(0, 2, 0)], 10)]
    step(made, 1, 5, 11)
    made.redraw(1)
    assert sent[-1] == ([(1, 1, 0)], 11), "a step counts its own redraws, whatever was redrawn before a stop"


def test_the_critic_warms_up_from_the_first_step_of_the_stage():
    current = Settings(config := defaults(trainer={"critic_warmup": 2}))
    current.begin_step(3, 40)
    assert config.trainer.critic_warmup == 39, "the first step of the stage was 37"
    assert [current.learns(at) for at in (38, 39)] == [False, True]


@pytest.mark.parametrize(
    ("groups", "workers", "size"),
    [([2, 2, 2, 2], 1, 4), ([2, 2, 3, 2], 1, 5), ([7, 8, 7, 8], 1, 15), ([7, 8, 7, 8], 4, 16), ([1, 1, 1], 1, 3)],
)
@pytest.mark.parametrize("parallel", [1, 2])
def test_updates_have_the_same_number_of_rows(groups, workers, size, parallel, monkeypatch):
    """On every rank; workers that split sequences are one."""
    parallel = min(parallel, workers)
    fsdp = {"fsdp_config": {"ulysses_sequence_parallel_size": parallel}}
    current = Settings(
        defaults(data={"seed": 0}, trainer={"n_gpus_per_node": workers}, actor_rollout_ref={"actor": fsdp})
    )
    verl = SimpleNamespace(
        resource_pool_manager=SimpleNamespace(get_n_gpus=lambda: workers), global_steps=1, local_trigger_step=0,
        tokenizer=SimpleNamespace(eos_token_id=0),
    )  # fmt: skip
    learner = Learner(verl, current, None)

    def padded(batch, multiple, eos):
        added = -len(batch) % multiple
        keys = [*batch.keys, *(f"pad_{number}_0" for number in range(added))]
        return KVBatchMeta(partition_id="train", keys=keys, tags=[*batch.tags, *({"seq_len": 1} for _ in range(added))])

    monkeypatch.setattr("agentgym_rl.engine.verl.learner.upsample_batch_to_divisible_size", padded)
    keys = [f"{group}_{session}_0" for group, sessions in enumerate(groups) for session in range(sessions)]
    batch = learner.balance(KVBatchMeta(partition_id="train", keys=keys, tags=[{"seq_len": 9} for _ in keys]), {}, 2)
    assert current.actor.ppo_mini_batch_size == size == current.config.critic.ppo_mini_batch_size
    updates = max(learner.update_of.values()) + 1
    assert updates == (2 if len(groups) == 4 else 1), "2 tasks an update"
    assert len(batch) == updates * size
    ranks = workers // parallel
    share, chunk = size // ranks, len(batch) // ranks
    dealt = [learner.update_of[key] for key in batch.keys]
    assert dealt == [update for _ in range(0, len(batch), chunk) for update in range(updates) for _ in range(share)]


@pytest.mark.parametrize(
    ("overrides", "threshold", "strategy"),
    [
        (("engine.stragglers=wait",), 1, "wait"),
        (("engine.stragglers=partial", "engine.max_staleness=3"), 3, "wait"),
        (("engine.stragglers=cap", "engine.ahead=2"), 1, "drop"),
    ],
)
def test_stragglers(overrides, threshold, strategy):
    sampler = settings("engine.mode=colocate_async", *overrides).trainer.v1.sampler
    assert (sampler.max_off_policy_threshold, sampler.max_off_policy_strategy) == (threshold, strategy)


@pytest.mark.parametrize(
    ("policy", "running_due", "finished", "enough"),
    [
        ("wait", 5, 4, False),  # one of this step's own batch is missing
        ("wait", 6, 4, True),  # only one of the next batch is
        ("partial", 5, 4, True),
        ("partial", 4, 4, False),  # it would become too old
        ("cap", 4, 4, True),
        ("cap", 6, 3, False),
    ],
)
def test_when_a_step_begins(policy, running_due, finished, enough):
    sampler = settings("engine.mode=colocate_async", f"engine.stragglers={policy}").trainer.v1.sampler
    buffer = AsyncEpisodeBuffer(
        "colocate_async", OmegaConf.create(), sampler.max_off_policy_threshold, sampler.max_off_policy_strategy,
        OmegaConf.create(),
    )  # fmt: skip
    buffer.running_keys["train"] = {"slow"}
    buffer.prompt_global_steps["train"] = {"slow": running_due}
    finished_keys = {f"done{number}" for number in range(finished)}
    assert buffer._has_enough_samples(5, "train", 4, finished_keys) is enough
    with buffer.refilling():
        assert buffer._has_enough_samples(5, "train", 4, finished_keys) is enough
    with buffer.exploring():
        assert buffer._has_enough_samples(5, "train", 4, finished_keys) is (finished >= 4)


def test_none_is_too_old_for_a_whole_phase():
    buffer = AsyncEpisodeBuffer("colocate_async", OmegaConf.create(), 1, "drop", OmegaConf.create())
    buffer.finished_keys["train"], buffer.prompt_global_steps["train"] = {"old"}, {"old": 1}
    assert buffer._terminal_eviction_reasons(5, "train")[0] == {"old"}
    with buffer.exploring():
        assert buffer._terminal_eviction_reasons(5, "train")[0] == set()


def test_checkpoints_leave_out_the_queue(monkeypatch, tmp_path):
    """A stage that goes on begins with nothing under way, so nobody would read the rows of steps ahead."""
    saved = []
    monkeypatch.setattr(tq, "save_checkpoint", lambda *_, **__: saved.append("queue"))
    for mode in ("sync", "colocate_async"):
        trainer = object.__new__(ColocateTrainer)
        workers = SimpleNamespace(save_checkpoint=lambda *_, **__: saved.append("weights"))
        trainer.__dict__ |= {
            "config": defaults(trainer={"default_local_dir": str(tmp_path)}), "global_steps": 3, "trainer_mode": mode,
            "use_critic": False, "actor_rollout_wg": workers, "train_dataloader": SimpleNamespace(state_dict=dict),
            "checkpoint_callback": SimpleNamespace(on_save=lambda **_: None),
        }  # fmt: skip
        trainer._save_checkpoint()
        assert saved == ["weights"] and trainer.trainer_mode == mode
        saved.clear()
    assert (tmp_path / "global_step_3" / "data.pt").is_file()


def test_importance_weights_where_rollouts_have_other_probabilities():
    assert settings().algorithm.rollout_correction.rollout_is is None
    correction = settings("engine.mode=colocate_async").algorithm.rollout_correction
    assert (correction.rollout_is, correction.rollout_is_threshold) == ("token", 2.0)
    assert settings("engine=gpu").algorithm.rollout_correction == correction, "vLLM's bfloat16"
    off = settings("engine.mode=separate_async", "algorithm.correction=none")
    assert off.algorithm.rollout_correction.rollout_is is None


def test_servers_of_their_own():
    config = settings("engine.mode=separate_async", "engine.rollout_workers=3", "algorithm.tasks_per_step=8")
    rollout = config.actor_rollout_ref.rollout
    assert (rollout.nnodes, rollout.n_gpus_per_node, rollout.checkpoint_engine.backend) == (1, 3, "gloo")
    assert config.actor_rollout_ref.hybrid_engine is False
    assert config.trainer.v1.separate_async.parameter_sync_step == 2
    assert config.ray_kwargs.ray_init.num_gpus == 4
    gpu = settings("engine=gpu", "engine.mode=separate_async")
    assert gpu.actor_rollout_ref.rollout.checkpoint_engine.backend == "nccl"


@pytest.mark.parametrize(
    ("overrides", "says"),
    thinned(
        [
            (("engine.mode=fast",), "engine.mode='fast' is unknown; choose sync"),
            (("engine.stragglers=shoot",), "engine.stragglers='shoot'"),
            (("engine.mode=colocate_async", "engine.ahead=0"), "engine.ahead must be at least 1"),
            (
                ("engine.mode=colocate_async", "engine.ahead=3", "engine.stragglers=cap"),
                "max_staleness=2 leaves no time",
            ),
            (("algorithm.correction.cap=0",), r"algorithm.correction.cap must be greater than 0, got 0"),
            (("algorithm.correction.bounds=[1.1,2]",), "algorithm.correction.bounds must be two ratios"),
            (("algorithm.correction=maybe",), "algorithm.correction.kind='maybe' is unknown"),
            (("algorithm.groups.refills=-1",), "algorithm.groups.refills must be at least 0"),
            (("engine.mode=separate_async", "algorithm.tasks_per_step=6"), "algorithm.mini_batch_tasks=4 must divide"),
            (("algorithm=dpo", "rollout.context=window"), "algorithm=dpo needs whole conversations"),
            (("algorithm=dpo", "rollout.thinking=strip"), "algorithm=dpo needs whole conversations"),
            (
                ("algorithm=agentevol", "algorithm.search.calls=9", "rollout.context=summary"),
                "search needs whole",
            ),
        ],
        3,
    ),
)
def test_refused(overrides, says):
    with pytest.raises(RecipeError, match=says):
        check_config(Resolved(recipes.load(["experiment=smoke", *overrides])))


def test_samplers_of_both_kinds_are_what_verl_would_build():
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    for mode, name in (("sync", "EpisodeBuffer"), ("separate_async", "AsyncEpisodeBuffer")):
        config = settings(f"engine.mode={mode}")
        built = PPOTrainer._build_replay_buffer(
            SimpleNamespace(config=config, trainer_mode=mode, _add_prompts_to_generate=None)
        )
        assert type(built).__name__ == name
