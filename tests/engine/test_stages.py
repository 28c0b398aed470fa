"""Stages of a run over a scripted trainer: rollouts, updates, saving, resuming and undoing.

The trainer makes up episodes by a rule and keeps its weights as a list of what was done to them; ``-m e2e`` tests the
real one.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from sweep import thinned

from agentgym_rl.algorithms.agentevol import AgentEvol
from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.model import POLICY
from agentgym_rl.data import agenttraj, episode_store
from agentgym_rl.data.episode import Ending, Episode, Turn
from agentgym_rl.data.files import write_text
from agentgym_rl.engine.recipe import compose as recipes
from agentgym_rl.engine.recipe import digest as digests
from agentgym_rl.engine.recipe.checkpoint import PROMPTS
from agentgym_rl.engine.recipe.config import PanelConfig
from agentgym_rl.engine.recipe.digest import digest
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.recipe.schema import RecipeError, to_dict
from agentgym_rl.engine.run.cache import ClonedCache
from agentgym_rl.engine.run.evaluation import RunPanels
from agentgym_rl.engine.run.folder import Interrupted, RunFolder
from agentgym_rl.engine.run.metrics import episode_metrics
from agentgym_rl.engine.run.metrics_log import MetricsLog, read
from agentgym_rl.engine.run.run import EngineRun
from agentgym_rl.engine.run.saver import NotSaved
from agentgym_rl.engine.run.stages import Stages
from agentgym_rl.engine.run.texts import open_writer, texts_of
from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.eval.units import UNITS
from agentgym_rl.rollout.playbook import Op, Operation, Playbook
from agentgym_rl.rollout.policies.api import BudgetSpent
from agentgym_rl.rollout.supervised import Example

sys.path.append(str(Path(__file__).parents[1] / "rollout"))
from chat_server import ChatServer, serving

PANEL = 4
"""Tasks of the recipe's panel."""


class Killed(BaseException):
    """The process ends here."""


class ScriptedTrainer:
    """Succeeds at tasks with an even index when sampled; ``val_success`` gives the success of later evaluations."""

    def __init__(self, checkpoints: Path, val_success: list[float] | None = None) -> None:
        self.checkpoints = checkpoints
        self.learnt: list[str] = []
        self.global_steps = 0
        self.played: list[list[str]] = []
        self.streams: list[str | None] = []
        self.prefaces: list[tuple[bool, set[str]]] = []
        """Of each call, whether it evaluated, and what stood before the first observations."""
        self.val_success = val_success or []
        self.die_after: int | None = None
        self.broken: set[str] = set()
        """Tasks whose training episodes fail outside the agent."""
        self.broken_by = Ending.ENV_ERROR
        self.broken_panel: set[str] = set()
        """Tasks whose episodes fail in evaluations."""
        self.restored: list[str | None] = []
        self.resets = 0
        self.moments = 0
        """Updates that the optimizer has moments of."""
        self.moments_before: list[int] = []
        """The same before each learning of the policy."""
        self.models: dict[str, bool] = {}
        self.begun: dict[str, tuple[list[str], bool]] = {}
        """What each model beside the policy began with, and whether these were its own weights."""
        self.critics: list[list[str]] = []
        """The policies that the critic started from."""
        self.asked: list[tuple[float, float]] = []
        self.parts: dict[str, tuple[str, dict[str, str | int]]] = {}
        """The environment and the options of each part that was played."""

    @property
    def sampler(self):
        return self

    weights = learner = sampler

    def rollouts(self, rows, *, validate, progress=None, take=None, chunk=None):
        self.played.append([row["item_id"] for row in rows])
        if not validate:
            self.timing_raw["gen"] = self.timing_raw.get("gen", 0.0) + 1e-6
        self.streams += [row.get("stream") for row in rows]
        self.parts |= {row["data_source"]: (row["part_of"], row["options"]) for row in rows if "options" in row}
        self.prefaces.append((validate, {row.get("preface", "") for row in rows}))
        rate = self.val_success.pop(0) if validate and self.val_success else 0.5
        result = []
        for number, row in enumerate(rows):
            won = number % PANEL < rate * PANEL if validate else int(row["item_id"].split("_")[1]) % 2 == 0
            episode = Episode(
                env=row["item_id"].partition("_")[0], item_id=row["item_id"], ending=Ending.TERMINATED,
                reward=float(won), success=won,
                max_turns=row["max_turns"] or 5, tags=row["tags"], response_tokens=2,
                messages=[{"role": "system", "content": "say N"}, {"role": "user", "content": row["item_id"]},
                          {"role": "assistant", "content": f"say {row['index']}"}],
                turns=[Turn(response=f"say {row['index']}", action="say", observation="", reward=0.0, invalid=False)],
            )  # fmt: skip
            if row["item_id"] in (self.broken_panel if validate else self.broken):
                episode = replace(
                    episode, ending=self.broken_by, error="EnvUnavailable: gone", success=False, attempts=3
                )
            result.append(Rollout(episode=episode, segments=(Example([1, row["index"]], [0.0, 1.0]),)))
            if take is not None and (len(result) % chunk == 0 or len(result) == len(rows)):
                take(result[-(len(result) % chunk or chunk) :])
            if progress is not None:
                progress(len(result), len(rows))
            if self.die_after == len(result) and take is not None:
                raise Killed
        return result

    def learn(self, rows, loss, *, lr, mini_batch, updates=None, model=POLICY, **_):
        if model != POLICY:
            assert self.models[model], "it learns"
            self.begun[model][0].append(f"learn {len(rows)}")
            return {"supervised/loss": 1.0}, 1
        self.moments_before.append(self.moments)
        if loss is not CROSS_ENTROPY:
            self.learnt.append("policy")
            self.moments += 1
            return {}, 1
        count = len(rows)
        updates = -(-count // mini_batch) if updates is None else updates
        self.moments += updates
        self.learnt.append(f"imitate {count} x{updates}")
        self.asked.append((lr, self.optimizer.weight_decay))
        return {"supervised/updates": updates, "supervised/loss": 1.0}, updates

    def batches(self, number, steps, rows, *_):
        self.step_metrics = {}
        rollouts = self.rollouts([row for row in rows(number, 0) for _ in range(2)], validate=False)
        self.step_episodes = [rollout.episode for rollout in rollouts]
        yield [
            Rollout(episode=episode, group=episode.item_id, kept=[f"{at}"])
            for at, episode in enumerate(self.step_episodes)
        ]

    def begin_models(self):
        self.models = {}

    def begin_as_policy(self, name, *, trained):
        self.models[name], self.begun[name] = trained, (list(self.learnt), False)

    def begin_model(self, name, place, *, trained, optimizer=False):
        named = () if place is None else (place / "weights.json", place.with_name("weights.json"))
        file = next(filter(Path.is_file, named), None)
        held = [] if file is None else json.loads(file.read_text())
        self.models[name], self.begun[name] = trained, (held, optimizer)

    def start_critic(self, folder):
        self.critics.append(None if folder is None else json.loads((folder / "weights.json").read_text()))

    def write_episodes(self, path, keys):
        return []

    def reset_optimizer(self):
        self.resets += 1
        self.moments = 0

    def restore(self, folder):
        self.restored.append(None if folder is None else folder.name)
        self.learnt = [] if folder is None else json.loads((folder / "weights.json").read_text())
        self.moments = 0 if folder is None else int((folder / "moments").read_text())

    def save(self):
        name = f"global_step_{self.global_steps}"
        write_text(self.checkpoints / name / "weights.json", json.dumps(self.learnt))
        write_text(self.checkpoints / name / "moments", str(self.moments))
        for model in (model for model, trained in self.models.items() if trained):
            write_text(self.checkpoints / name / "models" / model / "weights.json", json.dumps(self.begun[model][0]))
        return name


def demonstration(tokens):
    episode = Episode(
        env="counter", item_id="counter_0", ending=Ending.TERMINATED, reward=1.0, success=True, max_turns=1
    )
    return Rollout(episode=episode, segments=[Example(tokens, [0.0] + [1.0] * (len(tokens) - 1))])


@cache
def composed(*overrides):
    """A recipe takes longer to compose than its scripted run takes."""
    return recipes.load(overrides)


@pytest.fixture
def run(toy_recipes):
    """Start or resume the run of some overrides; gives the trainer and the finished stages."""

    def start(
        *overrides,
        val_success=None,
        die_after=None,
        stop=lambda: False,
        name="a",
        panel=None,
        broken=(),
        broken_panel=(),
        broken_by=Ending.ENV_ERROR,
        writer=None,
    ):
        folder_path = toy_recipes / name
        config = deepcopy(composed("experiment=counter", "cloning.epochs=2", *overrides))
        config.run.dir, config.writer.policy = str(folder_path), writer or config.writer.policy
        if panel is not None:
            config.envs["counter"].panels["choose"] = panel
        folder = RunFolder(folder_path, recipes.identity(config), resume=True)
        state = folder.load_state()
        trainer = ScriptedTrainer(folder.checkpoints, val_success)
        trainer.die_after, trainer.broken, trainer.broken_panel = die_after, set(broken), set(broken_panel)
        trainer.broken_by = broken_by
        log = MetricsLog(folder.path, to_dict(config), state.global_step, state.logged)
        lines: list[str] = []
        resolved = Resolved(config)
        texts = texts_of(resolved, trainer, None, writer=open_writer(resolved), spent=state.written, stop=stop)
        run = EngineRun(
            resolved=resolved, texts=texts, trainer=trainer, folder=folder, state=state, log=log,
            encoder=None, demonstrations=[demonstration([1, 2])] * 8, bar=lambda *_: None, say=lines.append, stop=stop,
        )  # fmt: skip
        cache = None if config.run.cache is None else ClonedCache(Path(config.run.cache), digest(config, cloned=True))
        trainer.told, trainer.folder, trainer.state = lines, folder, state
        trainer.stages = Stages(run, cache)
        try:
            trainer.stages.complete()
        finally:
            log.close()
            texts.close()
            trainer.steps = [line for line in lines if re.match(r"\w+ \d+ of \d+", line)]
            trainer.said = [line for line in lines if line not in trainer.steps]
        return trainer

    return start


EVOLVE = ("algorithm=agentevol", "algorithm.steps=2", "algorithm.epochs=2", "algorithm.tasks_per_step=8",
          "algorithm.samples_per_task=2", "algorithm.mini_batch_trajectories=4")  # fmt: skip


@pytest.mark.parametrize(("restart", "fresh"), [("current", 3), ("base", 4)])
def test_no_stage_begins_with_the_moments_of_another(run, restart, fresh):
    """Cloning, the algorithm, or each round that restarts, and the control begin without any."""
    trainer = run(*EVOLVE, f"algorithm.restart_from={restart}", "run.control=true")
    assert trainer.moments_before[0] == 0 and trainer.moments_before.count(0) == fresh


def test_a_round_that_is_undone_leaves_no_moments(run):
    """It began with the weights of cloning, whose checkpoint has moments of cloning."""
    gate = (*EVOLVE, "algorithm.keep_best=true", "algorithm.restart_from=current", "run.evaluate_untrained=false",
            "envs.counter.panels.test.role=validation")  # fmt: skip
    trainer = run(*gate, val_success=[0.75, 0.25, 0.75, 0.75])
    assert "round 1 lowered validation success" in " ".join(trainer.said)
    assert trainer.moments_before.count(0) == 3, "cloning and both rounds"


def test_each_stage_has_its_own_optimizer_and_the_control_repeats_the_algorithms(run):
    overrides = ["cloning.lr=1", "cloning.optimizer.weight_decay=0.5", "cloning.optimizer.warmup_steps=1",
                 "algorithm.lr=2", "algorithm.optimizer.weight_decay=0.25", "run.control=true"]  # fmt: skip
    trainer = run(*EVOLVE, *overrides)
    rounds = [(2, 0.25), (pytest.approx(0.2), 0.25)] * 2
    assert trainer.asked == [(0.5, 0.5), (1, 0.5), *rounds, *rounds[:2]], (
        "a round restarts, so its updates are repeated"
    )


def test_a_stage_that_learned_nothing_says_so(run):
    """The scripted episodes of a task all have the same outcome, so no step has a pair."""
    lines = run("algorithm=dpo", "algorithm.steps=2", "algorithm.tasks_per_step=4", "algorithm.samples_per_task=2").said
    assert lines == [
        *(f"dpo: step {step} learned nothing: no task was both solved and failed" for step in (1, 2)),
        "dpo is not learning: no group has episodes of unequal reward; take other tasks (envs.<name>.difficulty), more "
        "algorithm.samples_per_task, or mixture.tasks=task",
        "dpo: nothing was learned; the weights are those that the stage began with",
    ]
    assert run(*EVOLVE, name="other").said == []


@pytest.mark.parametrize(
    ("budget", "units", "expected"),
    [
        ("budget.tokens=33", 6, []),
        ("budget.tokens=32", 3, []),
        ("budget.updates=1", 3, []),
        ("budget.tokens=65", 6, ["budget: 64 of 65 tokens; more algorithm.steps would spend the rest"]),
    ],
)
def test_a_stage_ends_with_the_step_that_spends_the_budget(run, budget, units, expected):
    """A round is an exploration of 16 episodes of 2 tokens, and two passes."""
    trainer = run(*EVOLVE, budget, "run.control=true")
    assert max(row["stage/agentevol"] for row in read(trainer.folder.path) if "stage/agentevol" in row) == units
    assert trainer.said == expected
    again = run(*EVOLVE, budget, "run.control=true")
    assert again.played == [] and again.state.learnt["units"] == units


def test_a_run_that_goes_on_with_more_steps_counts_all_episodes(run, toy_recipes):
    steps = [setting for setting in LEARN if not setting.startswith("algorithm.steps=")]
    first = run(*steps, "algorithm.steps=2")
    assert first.state.extend(3, first.stages.run.config.budget)
    first.folder.reopen(first.state)
    stage = run(*steps, "algorithm.steps=3").state.results[-1]
    whole = run(*LEARN, name="whole").state.results[-1]
    assert {key: stage[key] for key in ("episodes", "tokens", "updates", "steps")} == {
        key: whole[key] for key in ("episodes", "tokens", "updates", "steps")
    }


def test_a_run_that_goes_on_forgets_the_control_that_it_had(run):
    steps = [setting for setting in EVOLVE if not setting.startswith("algorithm.steps=")]
    first = run(*steps, "algorithm.steps=1", "run.control=true")
    kept = {file.name for file in (first.folder.path / "episodes").glob("val_*")}
    assert first.state.extend(6, first.stages.run.config.budget), "units: an exploration and two passes a round"
    first.folder.reopen(first.state)
    left = {file.name for file in (first.folder.path / "episodes").glob("val_*")}
    assert {name.partition("_step")[0] for name in kept - left} == {
        "val_control"
    } and "val_bc_step000002.parquet" in left
    again = run(*steps, "algorithm.steps=2", "run.control=true")
    assert len([*(again.folder.path / "episodes").glob("val_control*")]) == 1


def test_what_is_sampled_follows_from_seed_step_and_place(run):
    """A resumed run samples the same; no two episodes of a run share their seeds."""
    streams = run(*EVOLVE).streams
    assert None not in streams and len(set(streams)) == len(streams)
    with pytest.raises(Killed):
        run(*EVOLVE, die_after=16, name="b")
    assert set(run(*EVOLVE, name="b").streams) < set(streams)
    assert not set(run(*EVOLVE, "seed=1", name="c").streams) & set(streams)
    assert set(run(*EVOLVE, "engine.seeded=false", name="d").streams) == {None}


def test_the_prompt_of_an_algorithm_is_that_of_its_stage(run, monkeypatch):
    """In its episodes, in its evaluations, with the weights and in the results; a request's own text follows it."""

    def prompt(self, env):
        return f"Round {len(self.successes)} in {env}."

    def requests(self, number, requests_of_run=EngineRun.requests):
        return [replace(request, preface="Hurry.") for request in requests_of_run(self, number)]

    monkeypatch.setattr(AgentEvol, "prompt", prompt)
    monkeypatch.setattr(EngineRun, "requests", requests)
    trainer = run(*EVOLVE, "run.control=true")
    first, second = successes_kept(trainer)
    explored = [texts for evaluated, texts in trainer.prefaces if not evaluated]
    assert explored == [{"Round 0 in counter.\n\nHurry."}, {f"Round {first} in counter.\n\nHurry."}]
    untrained, cloned, evolved, control = (texts for evaluated, texts in trainer.prefaces if evaluated)
    assert untrained == cloned == control == {""} and evolved == {f"Round {second} in counter."}
    prompts = [stage["prompts"] for stage in trainer.state.results]
    digest_of = fingerprint(f"Round {second} in counter.", 12)
    assert prompts == [{}, {}, {"counter": digest_of}, {}]
    file = trainer.folder.checkpoint("global_step_8") / PROMPTS
    assert json.loads(file.read_text()) == {"counter": f"Round {second} in counter."} == trainer.state.learnt["prompts"]
    assert not (trainer.folder.checkpoint("global_step_2") / PROMPTS).exists() and trainer.state.prompts == {}


def test_the_prompt_of_a_request_takes_the_place_of_the_algorithms(run, monkeypatch):
    def requests(self, number, requests_of_run=EngineRun.requests):
        return [replace(request, prompt="Other.", preface="Hurry.") for request in requests_of_run(self, number)]

    monkeypatch.setattr(AgentEvol, "prompt", lambda self, env: "Own.")
    monkeypatch.setattr(EngineRun, "requests", requests)
    trainer = run(*EVOLVE)
    explored = [texts for evaluated, texts in trainer.prefaces if not evaluated]
    assert explored == [{"Other.\n\nHurry."}] * 2
    assert [texts for evaluated, texts in trainer.prefaces if evaluated][-1] == {"Own."}


def test_a_playbook_and_exemplars_stand_before_all_episodes(run, tmp_path):
    """The playbook goes with the weights, too; exemplars are of other tasks than the episode's."""
    book = Playbook()
    book.apply(Operation(Op.add, "Begin with one."), "counter", 1, "counter_1")
    book.write(tmp_path / "book.json")
    turn = Turn(response="Action: say 1", action="say 1", observation="Done.", reward=1.0, invalid=False)
    messages = [{"role": "user", "content": "Count to 1."}, {"role": "assistant", "content": turn.response}]
    solved = Episode(
        env="counter", item_id="counter_3", ending=Ending.TERMINATED, reward=1, success=True, max_turns=5,
        messages=messages, turns=[turn],
    )  # fmt: skip
    episode_store.write(tmp_path / "solved.parquet", [solved])
    files = f"rollout.playbook={tmp_path / 'book.json'}", f"rollout.exemplars={tmp_path / 'solved.parquet'}"
    trainer = run(*EVOLVE, *files)
    texts = {text for _, prefaces in trainer.prefaces for text in prefaces}
    lesson = book.text("counter")
    assert all(text.startswith(lesson) for text in texts)
    assert {"Example 1: count to 1" in text for text in texts} == {True, False}, "no task with its goal sees it"
    assert trainer.state.prompts == {"counter": lesson}


def successes_kept(trainer):
    """How many successes each round kept."""
    return [row["agentevol/kept"] for row in read(trainer.folder.path) if "agentevol/kept" in row]


def test_rounds_restart_from_the_base_and_learn_from_their_own_successes(run):
    trainer = run(*EVOLVE, "run.control=true")
    assert [result["name"] for result in trainer.state.results] == ["untrained", "bc", "agentevol", "control"]
    first, second = successes_kept(trainer)
    agentevol = json.loads((trainer.folder.checkpoint("global_step_8") / "weights.json").read_text())
    updates = -(-(8 + second) // 4)
    assert agentevol == [f"imitate {8 + second} x{updates}"] * 2, "only the last round's learning is in the weights"
    # the control: from the base too, as many updates, expert data alone
    assert trainer.learnt == [f"imitate 8 x{updates}"] * 2
    assert trainer.state.results[2]["episodes"] == 2 * 16
    assert trainer.state.results[2]["steps"] == 2
    rows = [row for row in read(trainer.folder.path) if "stage/agentevol" in row]
    explored = [row for row in rows if "agentevol/explore_s" in row]
    assert [row["agentevol/counter/explored"] for row in explored] == [16, 16]
    assert explored[0]["agentevol/counter/new_tasks"] == first
    assert all(row["env/counter/share"] == 1.0 for row in explored)
    assert all(row["rollout/gradient_groups"] == 0 for row in explored), "a task's episodes all end the same way"
    assert all(row["timing_s/step"] > row["timing_s/gen"] > 0 for row in explored), "where a unit's time went"
    assert all(row["timing_s/step"] > 0 for row in rows if UNITS in row)


def test_groups_have_a_gradient_where_their_rewards_differ():
    rewards = {
        "a_1": [0, 1, 1], "a_2": [1, 1], "a_3": [0, None], "b_1": [0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1], "c_1": [1],
    }  # fmt: skip
    episodes = [
        Episode(
            env=task[0], item_id=task, ending=Ending.ENV_ERROR if reward is None else Ending.TERMINATED,
            reward=reward or 0.0, success=reward == 1, max_turns=5,
        )
        for task, rewards_of_task in rewards.items() for reward in rewards_of_task
    ]  # fmt: skip
    shares = {name: value for name, value in episode_metrics(episodes).items() if name.endswith("gradient_groups")}
    assert shares == {"env/a/gradient_groups": 1 / 2, "env/b/gradient_groups": 0, "rollout/gradient_groups": 1 / 3}


def test_responses_that_a_parser_failed_on_are_counted_where_there_are_any():
    def episode(*faults):
        turns = [
            Turn(response="", action=None, observation="", reward=0.0, invalid=True, fault=fault) for fault in faults
        ]
        return Episode(env="a", item_id="a_1", ending=Ending.TURN_LIMIT, reward=0.0, success=False, max_turns=3,
                       turns=turns)  # fmt: skip

    fine, faulty = episode(None, None), episode("KeyError: 'x'", None, "KeyError: 'y'")
    assert "rollout/parser_faults" not in episode_metrics([fine])
    assert episode_metrics([fine, faulty])["rollout/parser_faults"] == 2


def test_rounds_may_go_on_from_the_present_weights_and_accumulate(run):
    trainer = run(*EVOLVE, "algorithm.restart_from=current", "algorithm.accumulate=true", "run.control=true")
    kept_first, kept_second = successes_kept(trainer)
    agentevol = json.loads((trainer.folder.checkpoint("global_step_8") / "weights.json").read_text())
    first, both = -(-(8 + kept_first) // 4), -(-(8 + kept_first + kept_second) // 4)
    learnt = [f"imitate {8 + kept_first} x{first}"] * 2 + [f"imitate {8 + kept_first + kept_second} x{both}"] * 2
    assert agentevol == ["imitate 8 x2"] * 2 + learnt
    assert trainer.learnt == ["imitate 8 x2"] * 2 + [f"imitate 8 x{n}" for n in (first, first, both, both)]


CLONED = ["imitate 8 x2"] * 2
LEARN = ("algorithm=grpo", "algorithm.steps=3", "algorithm.tasks_per_step=4", "algorithm.mini_batch_tasks=4",
         "algorithm.loss.kl=0.1", "run.save_every=1")  # fmt: skip


def in_the_first_step(folder, stage="grpo"):
    """Asks to stop when the first step of a stage is logged."""
    return lambda: any(f"stage/{stage}" in row for row in read(folder))


@pytest.mark.parametrize(
    ("reference", "weights"),
    [("start", CLONED), ("loaded", []), ("whole/checkpoints/global_step_3", [*CLONED, "policy"])],
)
def test_the_reference_policy(run, reference, weights, toy_recipes):
    """Also after a resume in the middle of the stage."""
    unbroken = run(*LEARN, name="whole")
    assert unbroken.learnt == [*CLONED, "policy", "policy", "policy"] and unbroken.begun == {
        "reference": (CLONED, False)
    }
    where = f"algorithm.loss.kl_reference={toy_recipes / reference if '/' in reference else reference}"
    with pytest.raises(Interrupted):
        run(*LEARN, where, name="again", stop=in_the_first_step(toy_recipes / "again"))
    assert json.loads((toy_recipes / "again" / "state.json").read_text())["unit"] == 1
    again = run(*LEARN, where, name="again")
    assert again.begun == {"reference": (weights, False)}
    assert again.learnt == unbroken.learnt, "the policy itself goes on where it was"


TWO_MODELS = """
from dataclasses import dataclass

from agentgym_rl.algorithms.base import LOADED, Algorithm, Needs
from agentgym_rl.algorithms.config import OnlineConfig
from agentgym_rl.algorithms.losses.cross_entropy import CROSS_ENTROPY
from agentgym_rl.algorithms.model import Model
from agentgym_rl.algorithms.rows import imitation


@dataclass(kw_only=True)
class TwoConfig(OnlineConfig):
    restores: bool = False
    "Whether each step goes back to the weights as loaded."
    policy_learns: bool = False


class Two(Algorithm[TwoConfig]):
    Config = TwoConfig

    @classmethod
    def needs(cls, config):
        return Needs(models={"prm": Model(trained=True)}, loaded_weights=True)

    @property
    def units(self):
        return self.config.steps

    def unit(self, run, number):
        if self.config.restores:
            run.restore(LOADED)
        rows = [imitation(example) for example in run.demonstrations[: number + 1]]
        if self.config.policy_learns:
            run.learn(rows[:1], CROSS_ENTROPY, lr=1.0, mini_batch=1)
        return run.learn(rows, CROSS_ENTROPY, lr=1.0, mini_batch=1, model="prm")
"""


@pytest.mark.parametrize("restores", [False, True])
def test_a_second_model_goes_on_where_it_was(run, toy_recipes, tmp_path, restores):
    file = tmp_path / f"two_{restores}.py"  # a module has one file
    file.write_text(TWO_MODELS)
    two = (f"algorithm={file}:Two", "algorithm.steps=3", "algorithm.tasks_per_step=4", "run.save_every=1",
           f"algorithm.restores={restores}")  # fmt: skip
    unbroken = run(*two, name="whole")
    assert unbroken.begun == {"prm": ([*CLONED, "learn 1", "learn 2", "learn 3"], False)}
    assert unbroken.learnt == ([] if restores else CLONED) and unbroken.state.stage_updates == 0
    assert [row["prm/loss"] for row in read(unbroken.folder.path) if "prm/loss" in row] == [1.0] * 3
    with pytest.raises(Interrupted):
        run(*two, stop=in_the_first_step(toy_recipes / "a", unbroken.state.results[-1]["name"]))
    again = run(*two)
    assert again.begun == {"prm": (unbroken.begun["prm"][0], True)} and again.learnt == unbroken.learnt


def test_the_control_leaves_the_checkpoint_of_an_algorithm_with_a_model_that_learns(run, tmp_path):
    file = tmp_path / "two_control.py"
    file.write_text(TWO_MODELS)
    two = (f"algorithm={file}:Two", "algorithm.steps=3", "algorithm.tasks_per_step=4", "run.control=true")
    trainer = run(*two, "algorithm.policy_learns=true")
    weights = trainer.folder.checkpoint(trainer.state.learnt["checkpoint"]) / "weights.json"
    assert json.loads(weights.read_text()) == [*CLONED, *["imitate 1 x1"] * 3]
    assert trainer.learnt == [*CLONED, *["imitate 8 x1"] * 3], "the control's are its own"


def test_the_moments_of_rewards_go_on_after_a_stop(run, toy_recipes):
    def of_environment(trainer):
        names = ("shaping/counter/reward_mean", "shaping/counter/reward_std", "shaping/reward", "env/counter/reward")
        return [[row[name] for name in names] for row in read(trainer.folder.path) if "stage/grpo" in row
                and names[0] in row]  # fmt: skip

    shaped = (*LEARN, "algorithm.normalise_by_std=false", "algorithm.shaping.normalise=true")
    unbroken = of_environment(run(*shaped, name="whole"))
    with pytest.raises(Interrupted):
        run(*shaped, stop=in_the_first_step(toy_recipes / "a"))
    assert of_environment(run(*shaped)) == unbroken and len(unbroken) == 3
    assert {row[-1] for row in unbroken} <= {0.0, 0.25, 0.5, 0.75, 1.0}, "the environment's own reward"


def test_the_critic_starts_from_the_cloned_policy_once(run, toy_recipes):
    valued = ("algorithm=ppo", *LEARN[1:4], "run.save_every=1")
    assert run(*valued, name="whole").critics == [CLONED]
    with pytest.raises(Interrupted):
        run(*valued, stop=in_the_first_step(toy_recipes / "a", "ppo"))
    assert run(*valued).critics == [], "a resumed critic has its own weights"
    plain = (*valued, "cloning.epochs=0", "envs.counter.demonstrations=0")
    assert run(*plain, name="plain").critics == [None], "from the policy as loaded"


def test_what_a_critic_alone_has_learned_is_saved(run, monkeypatch):
    """In its warm-up the policy does not learn."""
    monkeypatch.setattr(ScriptedTrainer, "learn", lambda *_, **__: ({}, 0))
    valued = ("algorithm=ppo", *LEARN[1:4], "run.save_every=1", "cloning.epochs=0", "envs.counter.demonstrations=0")
    trainer = run(*valued)
    assert trainer.state.checkpoint == f"global_step_{trainer.state.global_step}"
    policy_alone = run("algorithm=grpo", *valued[1:], name="grpo")
    assert policy_alone.state.checkpoint is None, "nothing has been learned"


def test_successes_are_files_that_another_run_can_clone(run):
    trainer = run(*EVOLVE)
    counts = []
    for number in (1, 2):
        trajectories = agenttraj.read(trainer.folder.path / "successes" / f"counter_round{number}.json")
        counts.append(len(trajectories))
        assert all(
            int(trajectory.item_id.split("_")[1]) % 2 == 0 and trajectory.loss == (None, None, True)
            for trajectory in trajectories
        )
    assert counts == successes_kept(trainer)


def test_a_killed_exploration_keeps_its_finished_episodes(run):
    unbroken = run(*EVOLVE, "algorithm.tasks_per_step=40", name="whole")
    with pytest.raises(Killed):
        run(*EVOLVE, "algorithm.tasks_per_step=40", die_after=70)
    again = run(*EVOLVE, "algorithm.tasks_per_step=40")
    assert again.said == ["round 1: explore: 64 episodes are kept from before the stop"]
    explored = [items for items in again.played if len(items) > 8]
    assert [len(items) for items in explored] == [16, 80]
    assert successes_kept(again) == successes_kept(unbroken)
    assert again.learnt == unbroken.learnt
    assert again.state.episodes == unbroken.state.episodes
    assert list((again.folder.path / "exploring").iterdir()) == []
    file, other = (run.folder.path / "episodes" / "step000003.parquet" for run in (again, unbroken))
    assert episode_store.read(file) == episode_store.read(other)


def test_ctrl_c_in_the_middle_of_an_exploration_and_of_learning(run):
    unbroken = run(*EVOLVE, "algorithm.tasks_per_step=40", name="whole")
    calls = {"n": 0}

    def stop_after(n):
        calls["n"] = 0

        def stop():
            calls["n"] += 1
            return calls["n"] > n

        return stop

    stops = 0
    for patience in (7, 60, 100, 3, 3, 3):  # in cloning, exploring and learning
        try:
            trainer = run(*EVOLVE, "algorithm.tasks_per_step=40", stop=stop_after(patience))
        except Interrupted:
            stops += 1
    assert stops >= 4
    trainer = run(*EVOLVE, "algorithm.tasks_per_step=40")
    assert trainer.learnt == unbroken.learnt
    assert successes_kept(trainer) == successes_kept(unbroken)


def test_a_stop_in_the_last_evaluation_of_a_stage_keeps_its_weights(run, toy_recipes):
    learn = (*LEARN[:-1], "run.save_every=0")
    unbroken = run(*learn, name="whole")

    def in_the_evaluation():
        """The first episode of the evaluation after the third step asks."""
        return sum("stage/grpo" in row for row in read(toy_recipes / "a")) == 3 and bool(next(answers, True))

    answers = iter([False])  # the end of the third step asks, too
    with pytest.raises(Interrupted):
        run(*learn, stop=in_the_evaluation)
    state = json.loads((toy_recipes / "a" / "state.json").read_text())
    assert state["unit"] == 3 and len(state["results"]) == 2, "the stage is not finished"
    again = run(*learn)
    assert again.asked == [], "nothing is learned again"
    assert again.learnt == unbroken.learnt
    assert [result["panels"] for result in again.state.results] == [
        result["panels"] for result in unbroken.state.results
    ]


def test_a_round_that_lowers_validation_success_is_undone(run):
    gate = (*EVOLVE, "algorithm.keep_best=true", "algorithm.restart_from=current", "run.evaluate_untrained=false",
            "envs.counter.panels.test.role=validation")  # fmt: skip
    # after cloning, round 1 better, round 2 worse, the end of the stage
    trainer = run(*gate, val_success=[0.5, 0.75, 0.25, 0.75])
    rows = [row for row in read(trainer.folder.path) if "agentevol/validation" in row]
    assert [(row["agentevol/validation"], row["agentevol/undone"]) for row in rows] == [(0.75, 0.0), (0.25, 1.0)]
    assert "round 2 lowered validation success" in " ".join(trainer.said)
    first = successes_kept(trainer)[0]
    assert trainer.learnt == ["imitate 8 x2"] * 2 + [f"imitate {8 + first} x{-(-(8 + first) // 4)}"] * 2
    assert trainer.restored[-1] == "global_step_5", "where round 2 began"
    assert len(trainer.state.updates) == 2, "the control repeats what is left in the weights"
    assert [stage["checkpoint"] for stage in trainer.state.results] == ["global_step_2", "global_step_5"]
    # without the gate a worse round stays
    trainer = run(*gate, "algorithm.keep_best=false", val_success=[0.5, 0.75, 0.25, 0.75], name="open")
    assert len(trainer.learnt) == 6


@pytest.mark.parametrize("gate", ["mean", "flips"])
def test_the_first_round_is_undone_where_no_stage_came_before(run, gate):
    trainer = run(
        *EVOLVE, "cloning.epochs=0", "algorithm.keep_best=true", f"algorithm.gate={gate}",
        "run.evaluate_untrained=false", "envs.counter.panels.test.role=validation",
        val_success=[0.75, 0.5, 0.75, 0.75],
    )  # fmt: skip
    rows = [row for row in read(trainer.folder.path) if "agentevol/validation" in row]
    assert [row["agentevol/undone"] for row in rows] == [1.0, 0.0]


@pytest.mark.parametrize(("losses", "undone"), [(0, [1.0, 0.0]), (PANEL, [0.0, 0.0])])
def test_a_round_that_loses_tasks_is_undone(run, losses, undone):
    trainer = run(
        *EVOLVE, "algorithm.keep_best=true", "algorithm.gate=flips", f"algorithm.gate_losses={losses}",
        "algorithm.restart_from=current", "run.evaluate_untrained=false", "envs.counter.panels.test.role=validation",
        val_success=[0.5, 0.5, 0.25, 0.5, 0.5],
    )  # fmt: skip
    rows = [row for row in read(trainer.folder.path) if "agentevol/validation" in row]
    assert [row["agentevol/undone"] for row in rows] == undone
    assert rows[0]["agentevol/lost"] > 0 == rows[1]["agentevol/lost"]
    lines = [text for text in trainer.said if "undone" in text]
    assert len(lines) == sum(undone) and all(
        re.search(r"round 1 lost \d+ validation tasks; undone", line) for line in lines
    )


def test_validation_panels_are_played_each_round_and_test_panels_at_the_end(run):
    panel = PanelConfig(split="test", n=3, role="validation")
    trainer = run(*EVOLVE, "run.evaluate_untrained=false", panel=panel)
    # cloning: both panels, twice (sampled and greedy); each round: validation alone; the end: both
    assert [len(items) for items in trainer.played] == [14, 16, 6, 16, 6, 14]
    rows = read(trainer.folder.path)
    followed = [row["step"] for row in rows if {"val/choose/counter/success", "stage/agentevol"} <= set(row)]
    assert followed == [5, 8, 8], "the curve of the stage has a point for each round"


def test_an_evaluation_counts_once_and_not_as_training(run, monkeypatch):
    """Exploring takes a second here, an evaluation a hundred; learning takes none."""
    clock, plain = [0], ScriptedTrainer.rollouts

    def slow(trainer, rows, *, validate, **keys):
        clock[0] += 100 if validate else 1
        return plain(trainer, rows, validate=validate, **keys)

    monkeypatch.setattr(ScriptedTrainer, "rollouts", slow)
    for module in ("run", "stages"):
        monkeypatch.setattr(f"agentgym_rl.engine.run.{module}.time.monotonic", lambda: clock[0])
    trainer = run(*EVOLVE, "run.evaluate_untrained=false", panel=PanelConfig(split="test", n=3, role="validation"))
    assert trainer.state.wall_s == clock[0] == 402, "after cloning, two rounds and at the end"
    spent = [row["run/stage_training_s"] for row in read(trainer.folder.path) if "stage/agentevol" in row]
    assert spent == [1, 1, 1, 1, 2, 2, 2, 2, 2]


@pytest.mark.slow
def test_cloned_weights_are_shared_between_runs_that_differ_in_what_follows(run, tmp_path):
    cache = f"run.cache={tmp_path}/cache"
    first = run(*EVOLVE, cache, name="first")
    second = run("algorithm=agentevol", "algorithm.steps=1", "algorithm.lr=1e-4", cache, name="second")
    assert [len(trainer.played) for trainer in (first, second)] == [1 + 1 + 2 + 1, 1 + 1 + 1]
    kept = str(next((tmp_path / "cache").glob("cloned-*/checkpoint")))
    assert second.state.results[1] == first.state.results[1] | {"checkpoint": kept}
    assert "cloned weights of counter taken from" in second.said[0]
    assert second.restored[1] == "checkpoint"
    assert [row["step"] for row in read(second.folder.path) if "stage/bc" in row] == [1, 2, 2]
    other = run(*EVOLVE, cache, "cloning.lr=1e-3", name="other")
    assert len(other.played) == 5, "other settings are cloned anew"
    shutil.rmtree(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_what_cloned_weights_depend_on(toy_recipes, monkeypatch):
    def of(*overrides, cloned=True):
        return digest(composed("experiment=counter", *overrides), cloned=cloned)

    assert of() == of("algorithm=ppo", "mixture=dynamic", "name=other", "rollout.temperature=0.5")
    shared = deepcopy(composed("experiment=counter"))
    shared.envs["counter"].share = 0.5
    assert digest(shared, cloned=True) == of()
    changes = (
        "seed=1",
        "cloning.lr=1",
        "envs.counter.demonstrations=2",
        "envs.counter.panels.test.n=3",
        "model.width=32",
        "run.greedy=false",
        "engine.seeded=false",
        "engine.mode=colocate_async",
    )
    assert len({of(), *map(of, changes)}) == 1 + len(changes)
    assert of() == of("engine.seeded=true"), "which null is on a CPU"
    here = of()
    monkeypatch.setattr(digests, "processor", lambda: "another one")
    assert of() != here
    model = of(cloned=False)
    assert model == of("cloning.lr=1", "envs.counter.demonstrations=2", cloned=False)
    assert len({model, of("seed=1", cloned=False), of("envs.counter.split=test", cloned=False)}) == 3


def test_what_fails_outside_the_agent_is_counted_by_kind(run):
    broken = {"counter_1", "counter_2", "counter_3"}
    trainer = run(*EVOLVE, "algorithm.tasks_per_step=40", broken=broken)
    explored = [row for row in read(trainer.folder.path) if "errors/env_error" in row]
    assert [(row["errors/env_error"], row["errors/retried"]) for row in explored] == [(6, 12), (6, 12)]
    assert trainer.state.errors == {"env_error": 12, "retried": 24}
    assert all(row["env/counter/success"] == 19 / 37 for row in explored), "they are no failures of the agent"


def test_a_step_in_which_too_much_fails_ends_the_run_and_runs_again(run):
    """What failed is not kept in the journal as if it were done."""
    many = {f"counter_{index}" for index in range(25)}
    says = r"only 30 of 80 episodes of counter count \(run.min_counted_training=0.5\).*such as by: EnvUnavailable: gone"
    with pytest.raises(EnvUnavailable, match=says):
        run(*EVOLVE, "algorithm.tasks_per_step=40", broken=many)
    again = run(*EVOLVE, "algorithm.tasks_per_step=40")
    unbroken = run(*EVOLVE, "algorithm.tasks_per_step=40", name="whole")
    assert successes_kept(again) == successes_kept(unbroken) and again.learnt == unbroken.learnt
    assert [len(items) for items in again.played if len(items) > 8] == [50, 80]
    lenient = run(*EVOLVE, "algorithm.tasks_per_step=40", "run.min_counted_training=0.3", broken=many, name="lenient")
    assert lenient.state.errors == {"env_error": 100, "retried": 200}


TWO = ("envs.counter.share=7", "+envs={plain: {share: 1, demonstrations: 0, panels: {test: {split: test, n: 4}}}}")
"""Most training episodes are of counter."""


def test_an_environment_that_is_down_in_training_ends_the_run(run, toy_recipes):
    """Its share of the episodes is far below the share that may fail, and it has no success, which is not 0."""
    down = {f"plain_{index}" for index in range(100)}
    with pytest.raises(EnvUnavailable, match=r"only 0 of 2 episodes of plain count \(run.min_counted_training=0.5\)"):
        run(*EVOLVE, *TWO, "run.evaluate_untrained=false", broken=down, name="down")
    assert not any("env/plain/success" in row for row in read(toy_recipes / "down"))
    again = run(*EVOLVE, *TWO, "run.evaluate_untrained=false", name="down")
    assert [row["env/plain/error_rate"] for row in read(again.folder.path) if "env/plain/error_rate" in row] == [0, 0]


def test_a_panel_that_is_down_ends_the_run_and_has_no_success(run, toy_recipes):
    with pytest.raises(
        EnvUnavailable, match=r"only 0 of 4 episodes of plain on panel test \(sampled\) and 0 of 4 .*\(greedy\) count"
    ):
        run(*EVOLVE, *TWO, "run.min_counted=0.2", broken_panel={f"plain_{index}" for index in range(100)}, name="down")
    (row,) = (row for row in read(toy_recipes / "down") if "val/test/counter/success" in row)
    assert {name for name in row if "plain" in name} == {
        "val/test/plain/error_rate", "val/test/plain/greedy_error_rate"
    }  # fmt: skip


def test_an_environment_without_an_episode_that_counts_has_no_figure():
    def episode(env, ending):
        return Episode(env=env, item_id=f"{env}_1", ending=ending, reward=0.0, success=False, max_turns=3)

    metrics = episode_metrics([episode("up", Ending.TURN_LIMIT), episode("down", Ending.TIMEOUT)])
    assert {name for name in metrics if name.startswith("env/down/")} == {"env/down/error_rate", "env/down/max_turns"}
    assert metrics["env/up/success"] == 0 and metrics["env/up/cut_share"] == metrics["curriculum/cut_share"] == 1


def test_what_is_lost_to_the_context_and_to_invalid_actions():
    def episode(ending, *invalid):
        turns = [Turn(response="", action="", observation="", reward=0.0, invalid=bad) for bad in invalid]
        return Episode(
            env="toy", item_id="toy_1", ending=ending, reward=0.0, success=False, max_turns=3, turns=turns
        )  # fmt: skip

    metrics = episode_metrics([episode(Ending.CONTEXT_LIMIT, True, True), episode(Ending.TERMINATED, False, True),
                             episode(Ending.TIMEOUT, False)])  # fmt: skip
    assert (metrics["env/toy/context_share"], metrics["env/toy/invalid_turns"]) == (0.5, 0.75)


def test_a_run_tells_each_step_and_once_why_it_learns_nothing(run, monkeypatch):
    alerts = []
    monkeypatch.setattr(MetricsLog, "alert", lambda self, finding: alerts.append((finding.stage, finding.rule)))
    monkeypatch.setattr(ScriptedTrainer, "learn", lambda self, *_, **__: (self.step_metrics.update(DEAD) or {}, 1))
    trainer = run("algorithm=grpo", "algorithm.steps=3", "cloning.epochs=0")
    first, second, third = trainer.steps[-3:]
    assert first.startswith("grpo 1 of 3  counter: success ") and second.endswith(" left")
    (dead,) = trainer.said
    assert "the entropy has collapsed" in dead
    assert trainer.told[-4:] == [first, second, dead, third]
    assert alerts == [("grpo", "entropy")]


DEAD = {"actor/entropy": 0.001}


def test_the_mean_of_panels_is_over_all_of_them_or_absent():
    def panels_of(*names):
        envs = {name: SimpleNamespace(panels={"val": PanelConfig(role="validation")}) for name in names}
        panels = {name: {"val": None} for name in names}
        return RunPanels(SimpleNamespace(config=SimpleNamespace(envs=envs), panels=panels))

    scores = {"val": {"a": {"sampled": {"success": 1.0}}, "b": {"sampled": {"success": None}}}}
    assert panels_of("a").validation_success(scores) == 1.0
    assert panels_of("a", "b").validation_success(scores) is None


def test_a_validation_task_is_solved_by_half_of_its_sampled_episodes_that_count():
    def episode(number, success, ending=Ending.TERMINATED, panel="val", decoding="sampled"):
        return Episode(env="a", item_id=f"a_{number}", ending=ending, reward=0.0, success=success, max_turns=3,
                       tags={"panel": panel, "decoding": decoding})  # fmt: skip

    roles = {"val": PanelConfig(role="validation"), "test": PanelConfig()}
    panels = RunPanels(
        SimpleNamespace(config=SimpleNamespace(envs={"a": SimpleNamespace(panels=roles)}), panels={"a": roles})
    )
    played = [
        episode(1, True), episode(1, False),
        episode(2, True), *[episode(2, False)] * 2,
        episode(3, True), *[episode(3, False, Ending.TIMEOUT)] * 2,
        episode(4, False), episode(4, True, decoding="greedy"),
        episode(5, True, panel="test"),
    ]  # fmt: skip
    assert panels.solved(played) == {"a_1", "a_3"}


def test_an_exploration_that_lost_episodes_resumes(run):
    """A journal of an earlier version may lack episodes, or have another task's where a task is left out now."""
    unbroken = run(*EVOLVE, "algorithm.tasks_per_step=40", name="whole")
    with pytest.raises(Killed):
        run(*EVOLVE, "algorithm.tasks_per_step=40", die_after=70)
    (file,) = (unbroken.folder.path.parent / "a" / "exploring").iterdir()
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    kept_entries = [entry for entry in entries if entry["key"] != "9"]
    kept_entries[3]["episode"]["item_id"] = "counter_49"
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in kept_entries))
    again = run(*EVOLVE, "algorithm.tasks_per_step=40")
    assert len(entries) == 64 and [len(items) for items in again.played if len(items) > 8] == [18, 80]
    assert successes_kept(again) == successes_kept(unbroken) and again.learnt == unbroken.learnt


def test_a_task_that_turns_out_not_to_fit_is_drawn_no_more(run):
    broken = {"counter_1", "counter_2"}
    trainer = run(*EVOLVE, "algorithm.tasks_per_step=40", broken=broken, broken_by=Ending.PROMPT_LIMIT)
    assert sorted(trainer.state.left_out) == sorted(broken)
    assert "counter_1, counter_2 do not fit into model.prompt_tokens=" in trainer.said[0]
    first, second = (items for items in trainer.played if len(items) == 80)
    assert broken <= set(first) and broken.isdisjoint(second)
    assert trainer.state.errors["prompt_limit"] == 4
    assert json.loads((trainer.folder.path / "state.json").read_text())["left_out"] == trainer.state.left_out


def resumed_state(trainer):
    """Everything of the end state but times."""

    def timeless(facts):
        return {key: value for key, value in facts.items() if not key.endswith("_s") and key != "results"}

    return timeless(vars(trainer.state)) | {"learnt": timeless(trainer.state.learnt)}


PLACES = [(EngineRun, "save_demonstrations"), (ScriptedTrainer, "learn"), (ScriptedTrainer, "save"),
          (RunFolder, "save_state"), (RunFolder, "drop_leftovers"), (RunFolder, "write_episodes"),
          (MetricsLog, "log")]  # fmt: skip


@pytest.mark.parametrize(("owner", "name"), thinned(PLACES, 3), ids=[name for _, name in PLACES])
def test_a_run_that_is_killed_wherever_it_was_ends_as_the_whole_one(run, monkeypatch, owner, name):
    """At every call of a method, before it and after it, until none is left."""
    evolve = (*EVOLVE, "run.save_every=1", "mixture=dynamic", "curriculum=success_gated", "curriculum.rounds=[2,4]")
    unbroken = run(*evolve, name="whole")
    method, calls, deaths = getattr(owner, name), {"left": 0}, 0

    def dying(self, *arguments, **named):
        calls["left"] -= 1
        if calls["left"] == 0:
            raise Killed
        result = method(self, *arguments, **named)
        calls["left"] -= 1
        if calls["left"] == 0:
            raise Killed
        return result

    monkeypatch.setattr(owner, name, dying)
    for left in range(1, 9):
        calls["left"] = left
        try:
            trainer = run(*evolve)
            break
        except Killed:
            deaths += 1
    else:
        calls["left"] = 0
        trainer = run(*evolve)
    assert deaths > 1
    assert trainer.learnt == unbroken.learnt and successes_kept(trainer) == successes_kept(unbroken)
    assert resumed_state(trainer) == resumed_state(unbroken)
    assert [row["step"] for row in read(trainer.folder.path)] == [row["step"] for row in read(unbroken.folder.path)]


FRONTIER = ("algorithm=grpo", "algorithm.steps=6", "algorithm.tasks_per_step=8", "run.save_every=2", "mixture=frontier",
            "mixture.every=2", "mixture.population=5", "mixture.elite=2", "mixture.min_episodes=2",
            "mixture.held_out={ink: [blue]}", "envs.counter.options={ink: red}")  # fmt: skip


@pytest.mark.parametrize("left", thinned(range(1, 7), 3))
def test_a_killed_run_goes_on_with_the_same_parts_of_environments(run, monkeypatch, left):
    """At the log of each step, which is after what the state on disk knows or not."""
    uninterrupted = run(*FRONTIER, name="whole")
    log, calls = MetricsLog.log, {"left": left + 2}

    def dying(self, *arguments):
        calls["left"] -= 1
        if calls["left"] == 0:
            raise Killed
        log(self, *arguments)

    monkeypatch.setattr(MetricsLog, "log", dying)
    with pytest.raises(Killed):
        run(*FRONTIER)
    trainer = run(*FRONTIER)
    assert resumed_state(trainer) == resumed_state(uninterrupted)
    individuals = trainer.state.mixture["shares"]["individuals"]
    assert any(each["died"] for each in individuals)
    parts = {each["name"]: (each["env"], each["settings"]) for each in individuals}
    assert trainer.parts and trainer.parts.items() <= parts.items()
    steps, unbroken = (read(each.folder.path) for each in (trainer, uninterrupted))
    prefixes = ("frontier/", "env/", "val/")
    assert [[(key, value) for key, value in row.items() if key.startswith(prefixes)] for row in steps] == [
        [(key, value) for key, value in row.items() if key.startswith(prefixes)] for row in unbroken
    ]
    assert {key.split("/")[1] for row in steps for key in row if key.startswith("env/")} == {"counter"}


WRITTEN = (
    *FRONTIER,
    "mixture.mutate=writer",
    "writer=openai:m@http://h/v1",
    "writer.price=[1e6,1e6]",
    "run.save_every=3",
)
"""The writer is asked in steps 2, 4 and 6, for 12 a question."""


def proposing():
    """A server that answers the same question alike, and the second question with nothing that can be read."""
    pytest.importorskip("openai")
    answers = {}

    def say(messages):
        proposals = [{"environment": "counter", "most": most} for most in (1 + len(answers), 99)]
        return answers.setdefault(messages[-1]["content"], "Well." if len(answers) == 1 else json.dumps(proposals))

    return ChatServer(say)


@pytest.mark.slow
@pytest.mark.parametrize(("ended", "limit"), [(Killed, 1000), (BudgetSpent, 20)])
def test_a_run_that_goes_on_asks_the_writer_of_settings_nothing_twice(run, monkeypatch, ended, limit):
    """Killed at the log of step 4, or ended by the cost of step 6; both are later than what is saved."""
    server, log, calls = proposing(), MetricsLog.log, {"left": 6 if ended is Killed else 99}

    def dying(self, *arguments):
        calls["left"] -= 1
        if calls["left"] == 0:
            raise Killed
        log(self, *arguments)

    with serving(server) as name:
        unbroken = run(*WRITTEN, name="whole", writer=name)
        before = len(server.requests)
        monkeypatch.setattr(MetricsLog, "log", dying)
        with pytest.raises(ended):
            run(*WRITTEN, f"writer.max_cost={limit}", writer=name)
        again = run(*WRITTEN, writer=name)
    assert before == 3 and len(server.requests) == 6
    assert resumed_state(again) == resumed_state(unbroken)
    shares = again.state.mixture["shares"]
    assert shares["answers"]["unread"] == 1 and shares["answers"]["refused"] >= 2 and len(shares["individuals"]) > 5
    assert any("the writer proposes nothing: there is no JSON list" in line for line in unbroken.said)
    assert read(again.folder.path)[-2]["frontier/writer_unread"] == 1


def test_a_writer_of_settings_that_is_down_leaves_births_to_the_knobs(run):
    server = proposing()
    server.faults = [None, *[(500, "gone")] * 7]
    with serving(server) as name:
        trainer = run(*WRITTEN, writer=name)
    assert not server.faults and trainer.state.mixture["shares"]["answers"]["unread"] >= 1
    assert any("the writer proposes nothing: openai:" in line and "500: gone" in line for line in trainer.said)
    assert trainer.state.written["calls"] == 2


def test_episodes_of_all_parts_of_an_environment_count_together(run):
    """One that fails is the only one of its part, and few of its environment's."""
    engine_run = run(*FRONTIER).stages.run
    failing, other = list(engine_run.mixture.parts)[:2]

    def episode(part, ending):
        return Episode(env=part, item_id=f"{part}_0", ending=ending, reward=0.0, success=False, max_turns=5, error="E")

    episodes = [episode(failing, Ending.ENV_ERROR), episode(other, Ending.TERMINATED)]
    engine_run._observe(episodes)
    with pytest.raises(EnvUnavailable, match="only 1 of 3 episodes of counter count"):
        engine_run._observe([*episodes, episode(other, Ending.ENV_ERROR)])


def test_a_mixture_with_parts_refuses_algorithms_that_go_by_environments(toy_recipes):
    with pytest.raises(RecipeError, match="algorithm=inspo goes by the names of environments, and mixture=frontier"):
        Resolved(composed("experiment=counter", "algorithm=inspo", "mixture=frontier")).ask_envs()


def test_an_algorithm_can_ask_and_encode_the_tasks_of_parts(toy_recipes):
    resolved = Resolved(composed("experiment=counter", *FRONTIER))
    name, part = next(iter(resolved.mixture.parts.items()))
    assert resolved.session(name).most == part.settings["most"] and resolved.session(name).name == name
    assert resolved.whole(name) == "counter" == resolved.whole("counter")
    assert resolved.facts(name).goal(Task(name, 2)) == f"count to {2 % part.settings['most'] + 1}"
    episode = SimpleNamespace(env=name, item_id=f"{name}_0", turns=[SimpleNamespace(action="say 1")])
    assert EngineRun.steps_left(SimpleNamespace(resolved=resolved), episode) == [1, 0]
    refused = resolved.mixture.state_dict()["shares"]["refused"]
    assert all("ink=lead" in why for why in refused.values())


def test_a_step_that_cannot_be_saved_ends_the_run_with_one_line_and_is_repeated(run, monkeypatch):
    unbroken = run(*EVOLVE, name="whole")
    save, full = ScriptedTrainer.save, {"from": 4}

    def on_a_full_disk(self):
        if self.global_steps >= full["from"]:
            raise OSError(28, "No space left on device")
        return save(self)

    monkeypatch.setattr(ScriptedTrainer, "save", on_a_full_disk)
    says = r"step 5 could not be saved in .* MiB are free: OSError: .*No space left.*; mend it, and the same command"
    with pytest.raises(NotSaved, match=says):
        run(*EVOLVE)
    full["from"] = 1000
    trainer = run(*EVOLVE)
    assert trainer.learnt == unbroken.learnt and resumed_state(trainer) == resumed_state(unbroken)


def test_episodes_are_written_while_the_run_goes_on_and_before_its_state(run, monkeypatch):
    logged, written, saved = Event(), [], []
    write, log, save = RunFolder.write_episodes, MetricsLog.log, RunFolder.save_state

    def slow(self, name, *arguments):
        if name == "step000003":
            assert logged.wait(10), "the step waits for its files"
        write(self, name, *arguments)
        written.append(name)

    def noted(self, step, metrics):
        log(self, step, metrics)
        if step == 3:
            logged.set()

    def save_state(self, state):
        saved.append(list(written))
        save(self, state)

    monkeypatch.setattr(RunFolder, "write_episodes", slow)
    monkeypatch.setattr(MetricsLog, "log", noted)
    monkeypatch.setattr(RunFolder, "save_state", save_state)
    run("algorithm=grpo", "algorithm.steps=2", "run.save_every=1")
    assert "step000003" in written and saved[-1] == written


def test_episodes_that_cannot_be_stored_end_the_run_with_one_line(run, monkeypatch):
    def full(self, name, *arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "write_episodes", full)
    with pytest.raises(NotSaved, match=r"could not be saved in .*No space left"):
        run("algorithm=grpo", "algorithm.steps=2")


def test_a_step_whose_episodes_all_begin_with_a_replay_has_no_success(run, monkeypatch):
    plain = ScriptedTrainer.rollouts

    def replayed(trainer, rows, *, validate, **keys):
        rollouts = plain(trainer, rows, validate=validate, **keys)
        for rollout in () if validate else rollouts:
            rollout.episode.turns = [
                *(replace(turn, calls=0) for turn in rollout.episode.turns),
                *rollout.episode.turns,
            ]
        return rollouts

    monkeypatch.setattr(ScriptedTrainer, "rollouts", replayed)
    gated = ("mixture=dynamic", "curriculum=success_gated", "curriculum.rounds=[2,4]")
    trainer = run("algorithm=grpo", "algorithm.steps=2", *gated)
    steps = [row for row in read(trainer.folder.path) if "stage/grpo" in row and "rollout/episodes_per_s" in row]
    assert len(steps) == 2 and not any("env/counter/success" in row for row in steps)
    assert trainer.state.mixture["shares"]["counter"]["fast"] == [0, 0], "nor does the mixture count any"
    assert trainer.state.curriculum["counter"] == {"round": 0, "best": 0.0, "waited": 0}
