"""Distillation: who scores what behind which prompt, and what is learned of it."""

import re
from dataclasses import replace

import pytest
import toy
from test_dart import KEYS, TokenRun
from test_exit import ScriptedRun

from agentgym_rl.algorithms.base import Rollout
from agentgym_rl.algorithms.distill import Distill, DistillConfig
from agentgym_rl.algorithms.hint import PLAN, Hint
from agentgym_rl.algorithms.losses.reverse_kl import TEACHER, ReverseKL
from agentgym_rl.algorithms.losses.vanilla import VanillaConfig
from agentgym_rl.algorithms.rows import PerToken
from agentgym_rl.envs.core import OracleUnavailable
from agentgym_rl.rollout.conversation import ContextTooSmall
from agentgym_rl.rollout.playbook import Op, Operation, Playbook
from agentgym_rl.rollout.supervised import Example


def distill(**keys):
    return Distill(DistillConfig(name="distill", **KEYS, **keys))


class KeyedRun(ScriptedRun):
    """A run whose tokens stay with the engine."""

    def score(self, rows, by, *, name):
        return [replace(row, streams={**row.streams, name: (by, row.segment)}) for row in rows]


class TaughtRun(TokenRun):
    """A run whose prompts are three tokens longer behind a hint; the numbers of a score tell their places."""

    context, without, large = 1000, (), ()
    """Tasks without a plan, and those whose plan is too long."""

    def __init__(self, **keys):
        super().__init__(**keys)
        self.read, self.scored, self.planned = [], [], []

    def environment(self, name):
        run = self

        class Planned(toy.Counter):
            def oracle(self, task):
                run.planned.append(task.index)
                if task.index in run.without:
                    raise OracleUnavailable("none")
                return ["red", "blue"]

        return Planned()

    def encode(self, messages, task):
        if task.index in self.large:
            raise ContextTooSmall("too long")
        self.read.append(messages[-2]["content"])
        return Rollout(episode=None, segments=[Example([8] * 5 + [1, 2], [0.0] * 5 + [1.0, 1.0], 5)])

    def score(self, rows, by, *, name, read):
        assert read and all(not row.streams for row in rows)
        self.scored.append((by, rows))
        scores = [PerToken(-float(at) for at in range(len(row.tokens.input_ids))) for row in rows]
        return [replace(row, streams={name: score}) for row, score in zip(rows, scores, strict=True)]


def test_without_a_hint_every_row_of_a_batch_is_scored_and_learned_from():
    run = KeyedRun()
    distill(teacher="loaded", hint=Hint.NONE, epochs=2).unit(run, 0)
    ((rows, loss, how),) = run.learned
    assert loss == ReverseKL(distill().loss) and how == {"lr": 0.1, "mini_batch": 4, "epochs": 2}
    assert [row.streams for row in rows] == [{TEACHER: (TEACHER, row.segment)} for row in rows] and len(rows) == 16


@pytest.mark.parametrize(("teacher", "by"), [("start", TEACHER), ("policy", "policy"), ("runs/other", TEACHER)])
def test_the_teacher_reads_a_plan_that_the_policy_does_not(teacher, by):
    run = TaughtRun()
    metrics = distill(teacher=teacher).unit(run, 0)
    ((scorer, hinted),) = run.scored
    assert scorer == by and set(run.read) == {f"{PLAN}\nred\nblue\n\nRoom 0."}
    ((rows, _, how),) = run.learned
    assert sorted(run.planned) == [0, 1, 2, 3], "the oracle solves each task once"
    assert metrics == {"distill/taught": 1.0} and len(rows) == how["mini_batch"] == 16
    for row, read in zip(rows, hinted, strict=True):
        assert row.tokens.prompt == 2 and read.tokens.prompt == 5
        assert read.tokens.input_ids == [8] * 5 + row.tokens.input_ids[2:]
        assert read.tokens.loss_weight[5:] == row.tokens.loss_weight[2:] and not any(read.tokens.loss_weight[:5])
        assert row.streams[TEACHER] == (0.0, 0.0, *(-float(at) for at in range(5, len(read.tokens.input_ids))))


def test_the_teacher_reads_lessons(tmp_path):
    book = Playbook()
    book.apply(Operation(Op.add, "Red is right."), "corridor", 1, "corridor_0")
    book.write(tmp_path / "playbook.json")
    keys = {"hint": Hint.PLAYBOOK, "playbook": str(tmp_path / "playbook.json")}
    run = TaughtRun()
    distill(**keys).unit(run, 0)
    assert {text.splitlines()[1] for text in run.read} == {"[1] Red is right."}
    needs = Distill.needs(DistillConfig(**keys))
    assert needs.environments == {"algorithm.playbook": {"corridor"}} and needs.plans is None
    assert needs.by_environment == needs.whole_steps == "algorithm.hint=playbook"
    Playbook().write(tmp_path / "playbook.json")
    with pytest.raises(ValueError, match=r"algorithm.playbook=.*playbook.json has no lessons"):
        distill(**keys)


def test_what_has_no_hint_that_fits_is_left_out_and_counted():
    run = TaughtRun()
    run.without, run.large = (1,), (2,)
    assert distill().unit(run, 0) == {"distill/taught": 0.5}
    rows, _, how = run.learned[0]
    assert {row.episode.item_id for row in rows} == {"corridor_0", "corridor_3"} and how["mini_batch"] == 8
    run.context = 0
    assert distill().unit(run, 0) == {"distill/taught": 0.0} and run.learned[1][0] == []


@pytest.mark.parametrize("name", ["vanilla", "gspo", "turn", "cispo", "sapo"])
def test_the_loss_is_the_one_of_the_teachers_advantages_to_the_bit(name):
    torch = pytest.importorskip("torch")
    from test_losses import loss, tokens

    batch = tokens(spread=1.0, turn=torch.zeros(4, 6))
    old = (batch.old_log_prob * 64).round() / 64  # sums of such numbers are exact
    advantage = (batch.log_prob.detach() * 64).round() / 64
    judged = replace(batch, old_log_prob=old, streams={**batch.streams, "advantage": advantage})
    taught = replace(judged, streams={"turn": batch.streams["turn"], TEACHER: old + advantage})
    plain, ours = loss(name), ReverseKL(loss(name))
    assert torch.equal(ours(taught), plain(judged)) and torch.equal(ours.clipped(taught), plain.clipped(judged))
    assert torch.equal(ours.metrics(taught)["reverse_kl"], -advantage)
    assert ours == ReverseKL(loss(name)) and ours != ReverseKL(loss("cispo" if name == "gspo" else "gspo"))


@pytest.mark.parametrize("name", ["vanilla", "cispo", "sapo"])
def test_a_policy_that_learns_from_its_own_tokens_becomes_its_teacher(name):
    torch = pytest.importorskip("torch")
    from test_losses import loss

    from agentgym_rl.algorithms.losses.base import Tokens

    generator = torch.Generator().manual_seed(0)
    teacher = torch.randn(8, 5, generator=generator).log_softmax(-1)  # 5 tokens behind each of 8 contexts
    logits = torch.randn(8, 5, generator=generator).requires_grad_()
    optimizer, ours = torch.optim.Adam([logits], lr=0.03), ReverseKL(loss(name))

    def apart():
        policy = logits.detach().log_softmax(-1)
        return float((policy.exp() * (policy - teacher)).sum(-1).mean())

    before = apart()
    for _ in range(300):
        policy = logits.log_softmax(-1)
        sampled = torch.multinomial(policy.detach().exp(), 32, replacement=True, generator=generator)
        log_prob, mask = policy.gather(-1, sampled), torch.ones(8, 32, dtype=torch.bool)
        streams = {TEACHER: teacher.gather(-1, sampled), "turn": torch.zeros(8, 32)}
        tokens = Tokens(log_prob=log_prob, old_log_prob=log_prob.detach(), mask=mask, streams=streams)
        optimizer.zero_grad()
        ours(tokens).mean().backward()
        optimizer.step()
    assert before > 0.5 and apart() < before / 20


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"hint": Hint.NONE}, "teacher=start without a hint is the policy itself, which has nothing to teach"),
        ({"hint": Hint.NONE, "teacher": "policy"}, "teacher=policy without a hint is the policy itself"),
        ({"hint": Hint.PLAYBOOK}, "hint=playbook shows the lessons of a file; give playbook=FILE"),
        ({"loss": VanillaConfig(kl=0.1)}, "loss.kl=0.1 needs rows that stay with the engine; set loss.kl=0"),
    ],
)
def test_what_cannot_work_is_refused(keys, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        DistillConfig(**keys)


def test_it_says_what_it_needs_and_what_has_no_effect():
    needs = Distill.needs(DistillConfig())
    assert needs.models[TEACHER].start == "start" and needs.models[TEACHER].key == "algorithm.teacher"
    assert needs.plans == needs.whole_steps == needs.full_context == "algorithm.hint=plan"
    assert Distill.needs(DistillConfig(teacher="policy")).models == {}
    plain = Distill.needs(DistillConfig(teacher="loaded", hint=Hint.NONE))
    assert (plain.plans, plain.whole_steps, plain.full_context) == (None, None, None)

    def unused(**keys):
        return DistillConfig(**keys).unused(off_policy=True, environments=1).keys()

    assert {"playbook", "shaping.scale", "correction.kind"} <= unused()
    assert "correction.kind" not in unused(teacher="loaded", hint=Hint.NONE)
    assert "playbook" not in unused(hint=Hint.PLAYBOOK, playbook="x")
