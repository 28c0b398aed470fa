"""Many episodes: concurrent, journaled, resumable."""

import asyncio
import json

import pytest
import toy

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.envs.hosts import LocalHost
from agentgym_rl.rollout.conversation import PolicyStopped
from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.policies import Oracle, Policy
from agentgym_rl.rollout.runner import Job, episodes_of, failures, run_jobs
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.supervised import Example

pytestmark = pytest.mark.usefixtures("toys")

JOBS = [Job(Task(env, index), sample) for env in ("counter", "plain") for index in range(4) for sample in range(2)]


def run(work, jobs=JOBS, **arguments):
    return asyncio.run(run_jobs(jobs, work, LocalHost(), lambda env: {"style": "compact"}, **arguments))


def oracle(**facts):
    return episodes_of(Oracle(), lambda env: RolloutSettings(style="compact"), **facts)


def episode_of(job, ending=Ending.TERMINATED):
    return Episode(
        env=job.task.env, item_id=str(job.task), ending=ending, reward=1.0, success=True, max_turns=5, error="gone"
    )


def test_entries_come_in_the_order_of_the_jobs_at_any_concurrency():
    for concurrency in (1, 5, 100):
        entries = run(oracle(), concurrency=concurrency)
        assert [entry.episode.item_id for entry in entries] == [str(job.task) for job in JOBS]
        assert {entry.episode.env: entry.episode.success for entry in entries} == {"counter": True, "plain": False}


def test_concurrent_jobs_have_sessions_of_their_own():
    open_at_once, most = set(), 0

    async def work(env, job):
        nonlocal most
        assert env not in open_at_once
        open_at_once.add(env)
        most = max(most, len(open_at_once))
        await asyncio.sleep(0.001)
        open_at_once.remove(env)
        return Entry()

    run(work, concurrency=3)
    assert most == 3


def test_what_is_in_the_journal_does_not_run_again(tmp_path):
    ran = []

    async def work(env, job):
        ran.append(job.key)
        if len(ran) == 5:
            raise KeyboardInterrupt
        return Entry(episode_of(job), (Example([1, 2], [0.0, 1.0]),), {"number": len(ran)})

    with pytest.raises(KeyboardInterrupt), Journal(tmp_path / "a.jsonl") as journal:
        run(work, journal=journal)
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"key": "counter_3 ')
    progress = []
    with Journal(tmp_path / "a.jsonl") as journal:
        entries = run(work, journal=journal, progress=lambda *numbers: progress.append(numbers))
    assert ran == [job.key for job in JOBS[:5]] + [job.key for job in JOBS[4:]]
    assert progress[0] == (4, 16) and progress[-1] == (16, 16)
    assert entries[0] == Entry(episode_of(JOBS[0]), (Example([1, 2], [0.0, 1.0]),), {"number": 1})
    assert [json.loads(line)["key"] for line in (tmp_path / "a.jsonl").read_text().splitlines()] == [
        job.key for job in JOBS
    ]


def test_failed_episodes_are_returned_but_not_kept(tmp_path):
    failing = {"counter_1 0", "plain_2 1"}

    async def work(env, job):
        return Entry(episode_of(job, Ending.ENV_ERROR if job.key in failing else Ending.TERMINATED))

    with Journal(tmp_path / "a.jsonl") as journal:
        entries = run(work, journal=journal, patience=2)
        assert {job.key for job, entry in zip(JOBS, entries, strict=True) if not entry.counts} == failing
        assert failing.isdisjoint(journal.entries) and len(journal.entries) == 14


@pytest.mark.parametrize(("patience", "attempts"), [(1, 3), (3, 5)])
def test_failures_in_a_row_end_the_work(patience, attempts):
    ran = []

    async def work(env, job):
        ran.append(job)
        return Entry(episode_of(job, Ending.TIMEOUT if len(ran) > 2 else Ending.TERMINATED))

    says = "counter_1 could not run: gone" if patience == 1 else "3 episodes in a row failed outside the agent: gone"
    with pytest.raises(EnvUnavailable, match=says):
        run(work, patience=patience)
    assert len(ran) == attempts


def test_what_a_job_raises_is_an_episode_of_it_and_the_others_go_on():
    async def work(env, job):
        if job is JOBS[2]:
            raise KeyError("broken")
        return Entry(episode_of(job))

    entries = run(work)
    assert [entry.episode.item_id for entry in entries] == [str(job.task) for job in JOBS]
    assert [job for job, entry in zip(JOBS, entries, strict=True) if not entry.counts] == [JOBS[2]]
    assert (entries[2].episode.ending, entries[2].episode.error) == (Ending.ROLLOUT_ERROR, "KeyError: 'broken'")
    with pytest.raises(EnvUnavailable, match=r"counter_1 could not run: KeyError: 'broken'"):
        run(work, patience=1)


def test_an_end_of_the_work_cancels_the_others_and_closes_the_sessions(monkeypatch):
    closed, cancelled = [], []

    async def close(self):
        closed.append(self)

    async def work(env, job):
        if job is JOBS[2]:
            raise PolicyStopped("spent")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(job)
            raise

    monkeypatch.setattr(toy.Counter, "close", close)
    with pytest.raises(PolicyStopped, match="spent"):
        run(work, concurrency=3)
    assert (cancelled, len(closed)) == (JOBS[:2], 3)


def test_episodes_that_do_not_count_are_told_by_environment(tmp_path):
    def entries(failing):
        return [
            Entry(episode_of(job, Ending.ENV_ERROR)) if job.key in failing else Entry(facts={"kept": []})
            for job in JOBS
        ]

    with Journal(tmp_path / "a.jsonl") as journal:
        assert failures(JOBS, entries(()), 1.0, journal) == []
        (failed,) = failures(JOBS, entries({"plain_2 1"}), 0.8, journal)
        assert failed.item_id == "plain_2"
        down = {f"plain_{index} {sample}" for index in range(4) for sample in range(2)}
        with pytest.raises(EnvUnavailable, match=r"only 0 of 8 episodes of plain count \(min_counted=0.4\).*gone"):
            failures(JOBS, entries({"counter_0 0", *down}), 0.4, journal)


def test_facts_are_asked_for_when_an_episode_ends():
    numbers = iter(range(100))
    entries = run(oracle(number=lambda: next(numbers)))
    assert [entry.facts for entry in entries] == [{"number": number} for number in range(len(JOBS))]


def test_a_policy_of_ones_own_runs():
    class Silent(Policy):
        name = "silent"

        async def run(self, env, task, settings, sample=0, watch=None):
            return episode_of(Job(task, sample))

    assert all(entry.episode.success for entry in run(episodes_of(Silent(), lambda env: RolloutSettings())))


def test_a_journal_belongs_to_its_settings(tmp_path):
    with Journal(tmp_path / "a.jsonl", {"seed": 1, "env": "maze"}) as journal:
        journal.add("a", Entry(facts={"x": [1]}))
    with Journal(tmp_path / "a.jsonl", {"seed": 1, "env": "maze"}) as journal:
        assert journal.entries == {"a": Entry(facts={"x": [1]})}
    with pytest.raises(ValueError, match=r"a\.jsonl holds an interrupted command with another seed and env;"):
        Journal(tmp_path / "a.jsonl", {"seed": 2, "env": "x"})
    journal.delete()
    assert not (tmp_path / "a.jsonl").exists()


def test_a_journal_that_does_not_say_a_setting_belongs_to_others(tmp_path):
    Journal(tmp_path / "a.jsonl", {"seed": 1}).close()
    with pytest.raises(ValueError, match="an interrupted command with another backend;"):
        Journal(tmp_path / "a.jsonl", {"seed": 1, "backend": None})


def test_a_journal_whose_head_was_torn_starts_afresh(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"se')
    with Journal(tmp_path / "a.jsonl", {"seed": 1}) as journal:
        journal.add("a", Entry())
    assert [*Journal(tmp_path / "a.jsonl", {"seed": 1}).entries] == ["a"]
