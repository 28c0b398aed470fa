"""Queries that must not harm: they end within their limits, and no other session notices."""

import asyncio
import marshal
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest
from sweep import thinned

from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvError, EnvFault, EnvTimeout, EnvUnavailable
from agentgym_rl.envs.sqlgym import SQLGym, sandbox, workers
from agentgym_rl.envs.sqlgym.database import database
from agentgym_rl.envs.sqlgym.question import Question
from agentgym_rl.envs.sqlgym.sandbox import Limits, Refused, Row
from agentgym_rl.envs.sqlgym.tasks import LIMITS, BuiltIn
from agentgym_rl.envs.sqlgym.workers import Worker, Workers

IMAGE = database(0, 0).image
LONG = "SELECT printf('%.*c', 2000000000, 'a'), printf('%.*c', 1999999999, 'b'), printf('%.*c', 1999999998, 'c')"
"""A few instructions of SQLite's virtual machine that take many seconds."""


def run(pool: Workers, source: bytes, limits: Limits, query: str) -> list[Row]:
    with pool.lease() as worker:
        return worker.run(source, limits, query)


@pytest.fixture
def pool() -> Iterator[Workers]:
    pool = Workers(1)
    yield pool
    pool.forget()


@pytest.mark.parametrize(
    ("query", "limits", "fault"),
    thinned([
        (LONG, Limits(5_000_000, 10_000, 10_000, seconds=1), "the query takes too long"),
        ("SELECT length(hex(zeroblob(450000000)))", Limits(5_000_000, 10**9, 10, 5), "the query needs too much memory"),
        ("WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT COUNT(*) FROM c", LIMITS, "too long"),
        ("WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT * FROM c", LIMITS, "too large"),
        ("SELECT COUNT(*) FROM book a, book b, book c, review d, review e, review f", LIMITS, "too long"),
        ("SELECT * FROM book a, book b, book c, review d, review e, review f", LIMITS, "too large"),
        ("SELECT hex(zeroblob(4000)) FROM review a, review b", LIMITS, "too large"),
        (f"SELECT {'(' * 100_000}", LIMITS, "."),
        (f"SELECT 1 {'+ 1' * 100_000}", LIMITS, "."),
    ], 3),
)  # fmt: skip
def test_a_query_ends_within_its_limits(
    pool: Workers, query: str, limits: Limits, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 60)
    with pytest.raises(Refused, match=fault):
        run(pool, IMAGE, limits, query)
    assert run(pool, IMAGE, LIMITS, "SELECT COUNT(*) > 0 FROM author") == [(1,)]


def test_a_worker_that_does_not_answer_is_killed(pool: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 0.0001)
    started = time.monotonic()
    with pytest.raises(EnvTimeout, match="gave no answer"):
        run(pool, IMAGE, replace(LIMITS, seconds=1000), LONG)
    assert time.monotonic() - started < 30
    monkeypatch.undo()
    assert run(pool, IMAGE, LIMITS, "SELECT 1") == [(1,)]


def test_a_worker_that_died_between_two_queries_is_replaced(pool: Workers) -> None:
    run(pool, IMAGE, LIMITS, "SELECT 1")
    worker = pool._free.get()
    assert worker is not None
    worker._process.kill()
    worker._process.wait()
    pool._free.put(worker)
    assert run(pool, IMAGE, LIMITS, "SELECT 2") == [(2,)]


def test_values_arrive_as_they_are(pool: Workers) -> None:
    assert run(pool, IMAGE, LIMITS, "SELECT NULL, 1, 1.5, 9e999, 'é☃', x'00ff'") == [
        (None, 1, 1.5, float("inf"), "é☃", b"\x00\xff")
    ]


def test_a_worker_that_cannot_start_is_not_the_agents_doing(pool: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(EnvUnavailable, match="cannot be started"):
        run(pool, IMAGE, LIMITS, "SELECT 1")
    monkeypatch.undo()
    assert run(pool, IMAGE, LIMITS, "SELECT 1") == [(1,)]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="Linux has it")
@pytest.mark.parametrize("what", [resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE])
def test_limits_of_the_machine_stay_below_ours(pool: Workers, what: int) -> None:
    with pool.lease() as worker:
        resource.prlimit(worker._process.pid, what, (1 << 33, 1 << 33))
        assert worker.run(IMAGE, LIMITS, "SELECT 1") == worker.run(IMAGE, LIMITS, "SELECT 1") == [(1,)]


def test_a_worker_that_fails_by_itself_is_not_the_agents_doing(pool: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "request", lambda *asked: marshal.dumps(("", (), "", False)))
    with pytest.raises(EnvFault, match="the process of the database failed"):
        run(pool, IMAGE, LIMITS, "SELECT 1")
    monkeypatch.undo()
    assert run(pool, IMAGE, LIMITS, "SELECT 1") == [(1,)]


@pytest.mark.parametrize(("number", "fault"), [(signal.SIGKILL, EnvUnavailable), (signal.SIGSTOP, EnvTimeout)])
def test_an_answer_whose_process_is_killed_or_suspended_is_not_scored(
    number: signal.Signals, fault: type[EnvError], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Workers(1)
    monkeypatch.setattr("agentgym_rl.envs.sqlgym.POOL", pool)
    monkeypatch.setattr(workers, "PATIENCE", 0.1)

    async def episode() -> None:
        env, task = SQLGym(), Task("sqlgym", 20_006)
        await env.reset(task)
        with pool.lease() as worker:
            os.kill(worker._process.pid, number)
            monkeypatch.setattr(Worker, "ended", False)  # as if it happened after the lease
        with pytest.raises(fault):
            await env.step(env.oracle(task)[0])
        monkeypatch.undo()
        await env.reset(task)
        assert (await env.step(env.oracle(task)[0])).reward == 1.0

    asyncio.run(episode())


@pytest.mark.slow
def test_a_query_that_is_out_of_processor_time_is_an_observation(monkeypatch: pytest.MonkeyPatch) -> None:
    async def episode() -> None:
        env = SQLGym(explore=1)
        await env.reset(Task("sqlgym", 20_006))
        step = await env.step(LONG)
        assert step.observation.text == "Error: the query takes too long"
        assert (step.done, step.info) == (False, {"invalid": True})
        step = await env.step(env.oracle(Task("sqlgym", 20_006))[0])
        assert step.reward == 1.0

    monkeypatch.setattr(workers, "PATIENCE", 60)
    monkeypatch.setattr(BuiltIn, "limits", replace(LIMITS, seconds=1))
    asyncio.run(episode())


@pytest.mark.slow
def test_a_gold_query_that_is_out_of_processor_time_is_not_the_agents_doing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def episode() -> None:
        env = SQLGym()
        await env.reset(Task("sqlgym", 20_006))
        env._question = Question("education", "?", LONG)
        with pytest.raises(EnvTimeout, match="the gold query of education was stopped"):
            await env.step("SELECT 1")

    monkeypatch.setattr(workers, "PATIENCE", 60)
    monkeypatch.setattr(BuiltIn, "limits", replace(LIMITS, seconds=1))
    asyncio.run(episode())


def test_close_stops_a_query_that_is_not_waited_for() -> None:
    async def episode() -> None:
        env = SQLGym()
        await env.reset(Task("sqlgym", 20_006))
        step = asyncio.create_task(env.step(LONG))
        await asyncio.sleep(0.2)
        assert not step.done()
        await env.close()
        with pytest.raises(EnvUnavailable, match="was killed"):
            await step

    asyncio.run(episode())


@pytest.mark.slow
def test_fifty_sessions_beside_a_long_query() -> None:
    beats = 0
    ended: list[bool] = []

    async def heartbeat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    async def episode(index: int, hostile: bool) -> float:
        env, task = SQLGym(), Task("sqlgym", index)
        await env.reset(task)
        before = beats
        step = await env.step(LONG if hostile else env.oracle(task)[0])
        assert not hostile or beats - before > 10, "the event loop waits"
        ended.append(hostile)
        await env.close()
        return step.reward

    async def episodes() -> list[float]:
        beat = asyncio.create_task(heartbeat())
        rewards = await asyncio.gather(*(episode(20_000 + place, place == 0) for place in range(50)))
        beat.cancel()
        return rewards

    assert asyncio.run(episodes()) == [float(place != 0) for place in range(50)]
    assert ended.index(True) > 25, "the others wait"


def test_a_step_is_cheap(pool: Workers) -> None:
    with pool.lease() as worker:
        process = psutil.Process(worker._process.pid)
    before = time.process_time() + sum(process.cpu_times()[:2])
    for _ in range(100):
        run(pool, IMAGE, LIMITS, "SELECT name FROM author")
    assert time.process_time() + sum(process.cpu_times()[:2]) - before < 0.5
    with pool.lease() as worker:
        assert worker._process.pid == process.pid, "one process runs them all"


CHILD = """
import os

from agentgym_rl.envs.sqlgym.database import database
from agentgym_rl.envs.sqlgym.tasks import LIMITS, BuiltIn
from agentgym_rl.envs.sqlgym.workers import POOL

def run(query):
    with POOL.lease() as worker:
        return worker.run(database(0, 0).image, LIMITS, query)


assert run("SELECT 1") == [(1,)]
child = os.fork()
for number in range(200):
    assert run(f"SELECT {number}, {child}") == [(number, child)]
if child:
    assert os.waitpid(child, 0)[1] == 0
    print(POOL._free.get()._process.pid, flush=True)
os._exit(0)
"""


def test_processes_do_not_share_workers_and_leave_none() -> None:
    process = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60, check=True)
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{int(process.stdout)}"):
        assert time.monotonic() < deadline, "a worker outlives its process"
        time.sleep(0.01)
