"""A playbook that a share of each group reads, and rows that are learned without it."""

from dataclasses import replace
from statistics import fmean

import pytest
from test_dart import KEYS, TokenRun
from test_exit import ScriptedRun

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.groups import GroupsConfig
from agentgym_rl.algorithms.grpo import GRPO, GRPOConfig, relative
from agentgym_rl.algorithms.guided import GUIDED, GuidanceConfig, Guided, GuidedConfig, Learn
from agentgym_rl.algorithms.losses import losses
from agentgym_rl.algorithms.losses.base import LossConfig
from agentgym_rl.algorithms.losses.off_policy import MOVED, SAMPLED, OffPolicy
from agentgym_rl.algorithms.losses.vanilla import VanillaConfig
from agentgym_rl.algorithms.rows import PerToken
from agentgym_rl.rollout.playbook import Op, Operation, Playbook
from agentgym_rl.rollout.supervised import Example

RED = "The red door is often right."
LESSONS = f"Lessons from earlier attempts at such tasks:\n[1] {RED}"


@pytest.fixture
def playbook(tmp_path):
    book = Playbook()
    book.apply(Operation(Op.add, RED), "corridor", 1, "corridor_0")
    book.write(tmp_path / "playbook.json")
    return str(tmp_path / "playbook.json")


def guided(playbook, keys=KEYS, **guidance):
    return Guided(GuidedConfig(name="guided", guided=GuidanceConfig(playbook=playbook, **guidance), **keys))


class GuidedRun(TokenRun):
    """A run whose prompts are five tokens longer where they have lessons."""

    encoded = ()

    def drawn(self, number):
        return [replace(request, preface="Now.") for request in super().drawn(number)]

    def rollouts(self, requests, label):
        shown = [replace(each, preface="\n\n".join(filter(None, [each.prompt, each.preface]))) for each in requests]
        return [
            longer(rollout) if LESSONS in rollout.episode.preface else rollout
            for rollout in super().rollouts(shown, label)
        ]

    def encode(self, messages, task):
        self.encoded = [*self.encoded, messages]
        return Rollout(episode=None, segments=[Example([8, 8, 1, 2], [0.0, 0.0, 1.0, 1.0], 2)])

    def score(self, rows, *, name, read):
        """The number of a token tells where it stands in its prompt or after it."""
        assert read
        scores = [PerToken(-float(at) for at in range(len(row.tokens.input_ids))) for row in rows]
        return [replace(row, streams={**row.streams, name: score}) for row, score in zip(rows, scores, strict=True)]


def longer(rollout):
    (segment,) = rollout.segments
    return replace(rollout, segments=[Example([9] * 5 + segment.input_ids, [0.0] * 5 + segment.loss_weight, 7)])


@pytest.mark.parametrize("off", [{"playbook": None}, {"share": 0.0}, {"share": 1.0, "learn": Learn.WITH}])
def test_without_guided_rows_it_is_grpo_bit_for_bit(off, playbook):
    """And where all read the lessons and keep them, GRPO with a prompt: what ``rollout.playbook`` does."""
    ours, runs = guided(**{"playbook": playbook, **off}), [ScriptedRun(), ScriptedRun()]
    for number in range(2):
        metrics = ours.unit(runs[0], number)
        assert metrics == GRPO(GRPOConfig(**KEYS)).unit(runs[1], number)
    assert runs[0].asked == runs[1].asked and repr(runs[0].learned) == repr(runs[1].learned)
    assert ours.prompt("corridor") == (LESSONS if off.get("share") == 1 else "") and ours.prompt("other") == ""


@pytest.mark.parametrize(("share", "counts"), [(0.5, {2}), (1.0, {4}), (0.3, {1, 2})])
def test_a_share_of_each_group_reads_the_lessons(share, counts, playbook):
    ours, run = guided(playbook, share=share), GuidedRun(tasks=40)
    planned = ours.plan(3, 0, run.requests(0))
    read = [request for request in planned if request.prompt]
    assert {request.samples for request in read} == counts and {request.prompt for request in read} == {LESSONS}
    assert fmean(request.samples for request in read) == pytest.approx(4 * share, abs=0.2)
    assert sum(request.samples for request in planned) == 160
    assert {request.prompt for request in planned} - {LESSONS} == ({""} if share < 1 else set())
    assert planned == ours.plan(3, 0, run.requests(0))


def test_an_environment_without_lessons_is_played_without():
    ours = Guided(GuidedConfig(guided=GuidanceConfig()))
    assert [request.samples for request in ours.plan(3, 0, GuidedRun().requests(0))] == [4] * 4


def test_rows_lose_the_lessons_and_keep_what_was_sampled(playbook):
    run = GuidedRun()
    metrics = guided(playbook).unit(run, 0)
    rows, loss, how = run.learned[0]
    assert len(rows) == 16 and how["mini_batch"] == 16 and loss == OffPolicy(losses()["vanilla"](VanillaConfig()), 1.0)
    for row in rows:
        read, width = row.episode.tags[GUIDED], len(row.tokens.input_ids)
        assert row.streams[MOVED] == float(read) and row.tokens.prompt == 2
        assert row.tokens.input_ids == [8 if read else 7] * 2 + [7] * (width - 2)
        assert sum(row.tokens.loss_weight) == 3 * len(row.episode.turns)
        first = 7 if read else 2
        assert row.streams[SAMPLED][2:] == tuple(-float(at) for at in range(first, first + width - 2))
    assert len(run.encoded) == 8
    assert {messages[-2]["content"] for messages in run.encoded} == {"Now.\n\nRoom 0."}
    assert {"guided/success", "guided/unguided_success"} <= metrics.keys()


def test_advantages_compare_the_whole_group(playbook):
    run = GuidedRun()
    guided(playbook).unit(run, 0)
    groups = {}
    for row in run.learned[0][0]:
        groups.setdefault(row.episode.item_id, []).append(row)
    assert len(groups) == 4
    for group in groups.values():
        assert [row.episode.tags[GUIDED] for row in group] == [True, True, False, False]
        expected = relative([row.episode.reward for row in group], True)
        assert [row.streams["advantage"] for row in group] == expected


def test_rows_that_keep_the_lessons_are_learned_as_grpo_learns(playbook):
    run = GuidedRun()
    ours = guided(playbook, learn=Learn.WITH)
    ours.unit(run, 0)
    rows, loss, _ = run.learned[0]
    assert loss == ours.loss and not run.encoded and ours.prompt("corridor") == LESSONS
    assert {len(row.tokens.loss_weight) - row.tokens.prompt for row in rows} and {7, 2} == {
        row.tokens.prompt for row in rows
    }
    assert {frozenset(row.streams) for row in rows} == {frozenset({"advantage"})}


def test_an_episode_that_is_the_only_one_of_its_group_is_not_learned_from(playbook):
    class Lossy(GuidedRun):
        def rollouts(self, requests, label):
            return super().rollouts(requests, label)[3:]

    run = Lossy()
    guided(playbook).unit(run, 0)
    assert len(run.learned[0][0]) == 12


def test_groups_without_a_gradient_can_leave(playbook):
    run = GuidedRun(skill=1.0)
    guided(playbook, {**KEYS, "groups": GroupsConfig(filter=True)}).unit(run, 0)
    assert run.learned[0][0] == []


@pytest.mark.parametrize("name", ["vanilla", "gspo", "turn", "cispo"])
def test_only_rows_that_were_moved_have_their_own_upper_clip(name):
    torch = pytest.importorskip("torch")
    from test_losses import loss, tokens

    plain, wide = loss(name), loss(name, clip_high=1.0)
    streams = {"turn": torch.zeros(4, 6), MOVED: torch.tensor([[1.0], [1.0], [0.0], [0.0]])}
    batch = tokens(spread=1.0, **streams)
    sampled = replace(
        batch, old_log_prob=batch.log_prob.detach(), streams={**batch.streams, SAMPLED: batch.old_log_prob}
    )
    ours = OffPolicy(plain, 1.0)
    assert torch.equal(ours(sampled)[:2], wide(batch)[:2]) and torch.equal(ours(sampled)[2:], plain(batch)[2:])
    assert torch.equal(ours.clipped(sampled)[:2], wide.clipped(batch)[:2])
    assert not torch.equal(ours(sampled)[:2], plain(batch)[:2]), "moving it moves the loss"
    assert ours != OffPolicy(plain, 0.5) and ours == OffPolicy(plain, 1.0)


def unused(playbook, **guidance):
    keys = {key: guidance.pop(key) for key in ("loss",) if key in guidance}
    config = GuidedConfig(guided=GuidanceConfig(playbook=playbook, **guidance), **keys)
    return config.unused(off_policy=False, environments=1)


def test_keys_without_effect_say_why(playbook):
    assert {"guided.share", "guided.learn", "guided.clip_high"} <= unused(None).keys()
    assert {"guided.playbook", "guided.learn", "guided.clip_high"} <= unused(playbook, share=0.0).keys()
    assert "guided.clip_high" in unused(playbook, learn=Learn.WITH)
    assert "loss.clip_high" not in unused(playbook, share=1.0), "environments without lessons use it"
    assert {"correction.kind", "groups.refills"} <= unused(playbook).keys()


def test_what_cannot_work_is_refused(playbook, tmp_path):
    with pytest.raises(ValueError, match=r"sapo has no guided.clip_high; set loss=vanilla"):
        GuidedConfig(guided=GuidanceConfig(playbook=playbook), loss=LossConfig(name="sapo"))
    with pytest.raises(ValueError, match=r"loss.kl=0.1 needs rows that stay with the engine; set loss.kl=0"):
        GuidedConfig(guided=GuidanceConfig(playbook=playbook), loss=VanillaConfig(kl=0.1))
    with pytest.raises(ValueError, match=r"share must be in \[0, 1\], got 2"):
        GuidanceConfig(share=2)
    Playbook().write(tmp_path / "empty.json")
    with pytest.raises(ValueError, match=r"empty.json has no lessons; give one that has"):
        guided(str(tmp_path / "empty.json"))
    with pytest.raises(FileNotFoundError, match=r"none.json does not exist"):
        guided(str(tmp_path / "none.json"))


def test_it_says_what_it_needs(playbook):
    needs = guided(playbook).needs(guided(playbook).config)
    assert needs.environments == {"algorithm.guided.playbook": {"corridor"}}
    assert (needs.full_context, needs.whole_steps) == ("algorithm.guided.learn=without", "algorithm.guided.playbook")
    assert needs.playbook == needs.by_environment == "algorithm.guided.playbook"
    config = GuidedConfig(guided=GuidanceConfig(playbook=playbook, learn=Learn.WITH))
    assert Guided.needs(config).full_context is None
    assert Guided.needs(GuidedConfig()) == GRPO.needs(GRPOConfig())
