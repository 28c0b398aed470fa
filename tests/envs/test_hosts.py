"""An environment plays the same wherever it runs, and what happens when that place fails."""

import asyncio
import os
import random
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st

from agentgym_rl.envs import Task
from agentgym_rl.envs.core import EnvTimeout, EnvUnavailable, Observation, ProtocolError, TaskNotFound, UnknownEnv
from agentgym_rl.envs.hosts import HostSettings, LocalHost, open_host
from agentgym_rl.envs.hosts.child import Sessions
from agentgym_rl.envs.hosts.host import PerLoop
from agentgym_rl.envs.hosts.workers import Worker, WorkerHost
from agentgym_rl.envs.probe import GARBAGE, follow, solution, walk

pytestmark = pytest.mark.usefixtures("toys")

WORLDS = ("counter", "textcraft", "maze", "alfworld", "weather")
"""One of each family of AgentGym's protocol, and of each way to report a reward."""

SLEEPY = '''
import os, threading, time
from agentgym_rl.envs.core import BlockingEnv, Observation, Step
from toy import Counter

class Sleepy(Counter, BlockingEnv):
    """Counts; sleeps, dies, prints or fails when told to."""

    name = "sleepy"
    _reset_blocking = _step_blocking = None

    async def _step(self, action):
        if action.startswith("sleep"):
            time.sleep(float(action.split()[1]))
        elif action == "die":
            os._exit(3)
        elif action == "print":
            print("hello")
        elif action == "fail":
            raise KeyError("lost")
        elif action == "timeout":
            from agentgym_rl.envs.core import EnvTimeout
            raise EnvTimeout("the game hangs")
        elif action == "pid":
            return Step(Observation(str(os.getpid())), 0.0, False)
        return await super()._step(action)
'''


@pytest.fixture
def sleepy(toys: Path):
    """Install one more toy environment."""
    (toys / "sleepy_world.py").write_text(SLEEPY)
    points = toys / "toy_worlds-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text() + "sleepy = sleepy_world:Sleepy\n")


@contextmanager
def serving(envs):
    """Our own server, in a thread; gives its address."""
    uvicorn = pytest.importorskip("uvicorn")
    from agentgym_rl.envs.protocol.server import Settings, create_app
    from agentgym_rl.envs.protocol.server.run import listen

    listening = listen("127.0.0.1", 0)
    settings = Settings(envs={world: {} for world in envs})
    server = uvicorn.Server(uvicorn.Config(create_app(settings), log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def plans(env, task):
    """What is played: the oracle's actions, garbage, and a random choice of both."""
    rng = random.Random(str(task))
    known = solution(env, task) or []
    return known, list(GARBAGE), [rng.choice(known + list(GARBAGE)) for _ in range(12)]


async def transcripts(place, world, tasks):
    """Everything an agent would see."""
    found = []
    here, env = LocalHost().open(world, {}), place.open(world, {})
    for task in tasks:
        for plan in plans(here, task):
            trail = await walk(env, task, follow(plan))
            found.append((trail.first.text, [
                (step.observation.text, step.reward, step.terminated, step.truncated, step.info.get("invalid", False))
                for step in trail.steps
            ]))  # fmt: skip
    await env.close()
    return found


async def same_everywhere(place):
    try:
        for world in WORLDS:
            indices = LocalHost().open(world, {}).spec.splits["test"]
            tasks = [Task(world, index) for index in list(indices)[:2]]
            here, there = await transcripts(LocalHost(), world, tasks), await transcripts(place, world, tasks)
            assert here == there
    finally:
        await place.close()


def test_processes_play_the_same():
    asyncio.run(same_everywhere(open_host(HostSettings(kind="process", workers=2))))


def test_our_servers_play_the_same():
    with serving(WORLDS) as address:
        asyncio.run(same_everywhere(open_host(HostSettings.of({"address": address}))))


def test_two_of_our_servers_share_many_episodes():
    async def main(addresses):
        place = open_host(HostSettings.of({"address": addresses, "sessions": 3}))

        async def episode(index):
            env, task = place.open("counter", {}), Task("counter", index)
            trail = await walk(env, task, follow(env.oracle(task)))
            await env.close()
            return trail.reward

        return await asyncio.gather(*(episode(index % 50) for index in range(60)))

    with serving(["counter"]) as address, serving(["counter"]) as other:
        assert asyncio.run(main([address, other])) == [1.0] * 60


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_ray_actors_play_the_same_and_are_replaced():
    ray = pytest.importorskip("ray")

    async def replaced(place):
        env, task = place.open("counter", {}), Task("counter", 2)
        await env.reset(task)
        ray.kill(env._lease[1]._actor)
        with pytest.raises(EnvUnavailable, match="died"):
            while True:  # the actor may answer until the kill has reached it
                await env.step("look")
        assert (await env.reset(task)).text == "Count to 3."
        with pytest.raises(TaskNotFound):
            await env.reset(Task("counter", 10**6))
        await env.close()
        await place.close()

    ray.init(address="local", num_cpus=2, include_dashboard=False)
    try:
        host = HostSettings(kind="ray", workers=2)
        asyncio.run(same_everywhere(open_host(host)))
        asyncio.run(replaced(open_host(host)))
    finally:
        ray.shutdown()


# ------------------------------------------------------------------------------------------------------- processes


def process_test(check, **settings):
    async def main():
        place = open_host(HostSettings(kind="process", **settings))
        try:
            await check(place)
        finally:
            await place.close()

    asyncio.run(main())


async def pid_of(env):
    return int((await env.step("pid")).observation.text)


def test_a_process_that_dies_takes_only_its_sessions(sleepy):
    async def check(place):
        task = Task("sleepy", 2)
        envs = [place.open("sleepy", {}) for _ in range(4)]
        for env in envs:
            await env.reset(task)
        pids = [await pid_of(env) for env in envs]
        assert len(set(pids)) == 2 and os.getpid() not in pids
        os.kill(pids[0], signal.SIGKILL)
        for env, pid in zip(envs, pids, strict=True):
            if pid == pids[0]:
                with pytest.raises(EnvUnavailable):
                    await env.step("say 1")
                with pytest.raises(ProtocolError):
                    await env.step("say 1")
            else:
                assert (await env.step("say 1")).observation.text == "Right."
        for env in envs:
            assert (await env.reset(task)).text == "Count to 3."
            await env.close()

    process_test(check, workers=2)


def test_the_only_process_is_replaced(sleepy):
    async def check(place):
        env, task = place.open("sleepy", {}), Task("sleepy", 2)
        await env.reset(task)
        before = await pid_of(env)
        with pytest.raises(EnvUnavailable, match=f"process {before}"):
            await env.step("die")
        await env.reset(task)
        assert await pid_of(env) != before
        await env.close()

    process_test(check)


def test_a_call_that_takes_too_long_ends_the_process(sleepy):
    async def check(place):
        task = Task("sleepy", 2)
        slow, other = place.open("sleepy", {}), place.open("sleepy", {})
        await slow.reset(task)
        await other.reset(task)
        slow._lease[1].timeout = 0.3
        waiting = asyncio.create_task(slow.step("sleep 60"))
        await asyncio.sleep(0)
        slow._lease[1].timeout = 60
        with pytest.raises(EnvUnavailable):
            await other.step("say 1")
        with pytest.raises(EnvTimeout, match=r"took longer than 0\.3 s"):
            await waiting
        await slow.reset(task)
        await slow.close()

    process_test(check)


def test_a_hanging_process_is_found_out_though_nobody_waits_any_more(sleepy):
    async def check(place):
        env, task = place.open("sleepy", {}), Task("sleepy", 2)
        await env.reset(task)
        pid = await pid_of(env)
        env._lease[1].timeout = 0.3
        step = asyncio.create_task(env.step("sleep 60"))
        await asyncio.sleep(0.05)
        step.cancel()
        with pytest.raises((EnvTimeout, EnvUnavailable)):
            await env.step("say 1")
        await env.reset(task)
        assert await pid_of(env) != pid
        await env.close()

    process_test(check)


def test_a_process_that_cannot_be_started_is_no_bug(monkeypatch, searches):
    async def check():
        place = open_host(HostSettings(kind="process", patience=0.1))
        with pytest.raises(EnvUnavailable, match=r"process worker 1 cannot be started: .*nowhere"):
            await place.open("counter", {}).reset(Task("counter", 2))
        await place.close()

    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    asyncio.run(check())
    assert len(searches) == 1


def test_what_a_world_raises_is_raised_here(sleepy):
    async def check(place):
        env = place.open("sleepy", {})
        await env.reset(Task("sleepy", 1))
        with pytest.raises(RuntimeError, match="KeyError: 'lost'"):
            await env.step("fail")
        with pytest.raises(EnvTimeout, match="the game hangs"):
            await env.step("timeout")
        await env.close()
        other = place.open("sleepy", {})
        with pytest.raises(TaskNotFound):
            await other.reset(Task("sleepy", 10**6))
        await other.close()

    process_test(check)


def test_what_a_world_prints_does_not_get_into_the_output(sleepy, capfd):
    async def check(place):
        env = place.open("sleepy", {})
        await env.reset(Task("sleepy", 1))
        await env.step("print")
        await env.close()

    process_test(check)
    out, err = capfd.readouterr()
    assert (out, "hello" in err) == ("", True)


def test_processes_end_with_their_opener(sleepy):
    pids = []

    async def check(place):
        env = place.open("sleepy", {})
        await env.reset(Task("sleepy", 1))
        pids.append(await pid_of(env))

    process_test(check)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


class Here(WorkerHost):
    """Workers in this process."""

    def __init__(self, settings):
        super().__init__(settings)
        self.workers = []

    async def start(self, name):
        self.workers.append(HereWorker(name))
        return self.workers[-1]


class HereWorker(Worker):
    alive = True

    def __init__(self, name):
        super().__init__(name)
        self.sessions = Sessions()

    async def _send(self, method, arguments, seconds):
        return await self.sessions.call(method, *arguments)

    async def stop(self):
        await self.sessions.close_all()


@pytest.mark.parametrize("error", [EnvUnavailable, EnvTimeout])
def test_a_session_whose_environment_fails_is_closed_in_its_worker(monkeypatch, error):
    async def failing(self, _):
        raise error("the browser has crashed")

    async def main():
        host, task = Here(HostSettings(kind="process", workers=2)), Task("counter", 1)
        env, starting = host.open("counter", {}), host.open("counter", {})
        await env.reset(task)
        monkeypatch.setattr(toy.Counter, "_step", failing)
        monkeypatch.setattr(toy.Counter, "_reset", failing)
        with pytest.raises(error):
            await env.step("say 1")
        with pytest.raises(ProtocolError):
            await env.step("say 1")
        with pytest.raises(error):
            await starting.reset(task)
        await env.close()
        await starting.close()
        assert [worker.sessions._open for worker in host.workers] == [{}] * len(host.workers)
        assert host.pool().leases.idle

    asyncio.run(main())


def test_workers_are_ended_though_another_did_not_start(monkeypatch):
    ended = []

    async def stop(self):
        ended.append(self.name)
        if self.name == "process worker 2":
            raise OSError("it has gone")

    class Failing(Here):
        async def start(self, name):
            if name == "process worker 1":
                raise ValueError("a bug in the start")
            return await super().start(name)

    async def main():
        host = Failing(HostSettings(kind="process", workers=3))
        pool = host.pool()
        with pytest.raises(ValueError, match="a bug in the start"):
            await pool.worker("process worker 1")
        for number in (2, 3):
            await pool.worker(f"process worker {number}")
        with pytest.raises(OSError, match="it has gone"):
            await host.close()

    monkeypatch.setattr(HereWorker, "stop", stop)
    asyncio.run(main())
    assert sorted(ended) == ["process worker 2", "process worker 3"]


@pytest.mark.parametrize("raised", [TimeoutError("slow"), ConnectionError("refused")])
def test_what_an_environment_raises_in_an_actor_does_not_end_it(raised, monkeypatch):
    ActorWorker = pytest.importorskip("agentgym_rl.envs.hosts.ray").ActorWorker
    from ray.exceptions import RayTaskError

    monkeypatch.setattr("ray.kill", lambda actor: None)

    class Remote:
        async def remote(self, *_):
            raise RayTaskError("step", "a traceback", raised).as_instanceof_cause()

    class Actor:
        call = Remote()

    worker = ActorWorker("ray worker 1", Actor())
    with pytest.raises(RuntimeError, match="a traceback"):
        asyncio.run(worker.call("step", 1, "look"))
    assert worker.alive


def test_actors_that_start_at_once_join_one_cluster(monkeypatch):
    module = pytest.importorskip("agentgym_rl.envs.hosts.ray")
    joined = []

    def init(**_):
        time.sleep(0.01)
        joined.append(True)

    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.is_initialized", lambda: bool(joined))
    monkeypatch.setattr(module, "_SESSIONS", MagicMock())
    host = module.RayHost(HostSettings(kind="ray", workers=2))

    async def main():
        await asyncio.gather(host.start("one"), host.start("two"))

    asyncio.run(main())
    assert joined == [True]


def test_a_style_that_only_some_environments_have(monkeypatch):
    monkeypatch.setattr(toy.Counter, "styles", ("agentgym", "compact", "verl_agent"))
    env = open_host(HostSettings(kind="process")).open("counter", {"style": "verl_agent"})
    assert env.style == "verl_agent"


def test_no_more_sessions_than_a_worker_may_have():
    async def check(place):
        open_now = most = 0

        async def episode():
            nonlocal open_now, most
            env = place.open("counter", {})
            await env.reset(Task("counter", 1))
            open_now += 1
            most = max(most, open_now)
            await env.step("say 1")
            open_now -= 1
            await env.close()

        await asyncio.gather(*(episode() for _ in range(7)))
        assert most <= 2

    process_test(check, workers=2, sessions=1)


def test_one_opener_serves_several_event_loops():
    place = open_host(HostSettings(kind="process"))

    async def episode():
        env = place.open("counter", {})
        first = await env.reset(Task("counter", 0))
        await env.close()
        await place.close()
        return first.text

    assert [asyncio.run(episode()) for _ in range(2)] == ["Count to 1."] * 2


def test_a_session_that_fails_or_hangs_as_it_closes_does_not_keep_a_process_from_closing_others(monkeypatch):
    closed = []

    async def close(self):
        if self.ink == "red":
            raise OSError("the disk is full")
        if self.ink == "green":
            await asyncio.Event().wait()
        closed.append(self.ink)

    async def main():
        sessions = Sessions()
        for number, ink in enumerate(("blue", "red", "green", "blue")):
            await sessions.call("reset", number, "counter", {"ink": ink}, "counter", 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sessions.close_all(), 0.05)

    monkeypatch.setattr(toy.Counter, "_close", close)
    asyncio.run(main())
    assert closed == ["blue", "blue"]


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_reset_opens_that_was_given_up_is_closed(monkeypatch, fails):
    """The caller closes the session while the reset still runs in the worker."""
    done = []

    async def main():
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def start(self, _):
            reached.set()
            await go_on.wait()
            done.append("opened")
            if fails:
                raise EnvUnavailable("the setup failed")
            return Observation("Begin.")

        async def close(self):
            done.append("closed")

        monkeypatch.setattr(toy.Counter, "_reset", start)
        monkeypatch.setattr(toy.Counter, "_close", close)
        sessions = Sessions()
        resetting = asyncio.create_task(sessions.call("reset", 1, "counter", {}, "counter", 1))
        await reached.wait()
        await sessions.call("close", 1)
        go_on.set()
        await asyncio.wait([resetting])
        return isinstance(resetting.exception(), EnvUnavailable)

    assert asyncio.run(main()) == fails
    assert done == ["closed", "opened", "closed"]


def test_a_server_may_have_a_part():
    async def play(address, name):
        place = open_host(HostSettings.of({"address": address}))
        await place.check(name)
        env = place.open(name, {})
        first = await env.reset(Task(name, 1))
        await env.close()
        return first.text

    with serving(["counter-far"]) as address:
        assert [asyncio.run(play(address, name)) for name in ("counter-far", "counter")] == ["Count to 2."] * 2


def test_loops_that_ask_at_once_keep_what_they_were_given():
    made, another = PerLoop(object), asyncio.new_event_loop()

    class Closed:
        def is_closed(self):
            made._made.setdefault(another, "asked meanwhile, in another thread")
            return True

    async def ask():
        return made.get()

    made._made[Closed()] = "of a loop that has ended"
    asyncio.run(ask())
    assert another.run_until_complete(ask()) == "asked meanwhile, in another thread"
    assert len(made._made) == 2
    another.close()


def test_fixed_facts_need_no_process():
    env, task = open_host(HostSettings(kind="process")).open("counter", {"style": "compact"}), Task("counter", 2)
    assert (env.spec.name, env.style, env.goal(task), env.difficulty(task)) == (
        "counter", "compact", "count to 3", "length 3"
    )  # fmt: skip
    assert env.oracle(task) == ["say 1", "say 2", "say 3"]
    with pytest.raises(ProtocolError):
        asyncio.run(env.step("say 1"))


@pytest.mark.parametrize("kind", ["local", "process"])
def test_a_world_that_is_not_installed(kind):
    with pytest.raises(UnknownEnv):
        open_host(HostSettings(kind=kind)).open("countre", {})


# -------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"kind": "cloud"}, "host.kind='cloud' is unknown; choose local, process, ray, remote"),
        ({"kind": "remote"}, "host.kind=remote needs host.address"),
        ({"address": "localhost:8000"}, "address 'localhost:8000' is no URL"),
        ({"address": ["http://a", "ftp://b"]}, "address 'ftp://b' is no URL"),
        ({"kind": "process", "address": "http://a"}, "host.address='http://a' is for remote and ray"),
        ({"kind": "process", "workers": 0}, "host.workers must be at least 1, got 0"),
        ({"kind": "process", "sessions": 0}, "host.sessions must be at least 1, got 0"),
        ({"workers": 8}, "host.workers=8 is for process and ray, not for host.kind=local"),
        ({"address": "http://a", "workers": 2}, "host.workers=2 is for process and ray, not for host.kind=remote"),
        ({"sessions": 2}, "host.sessions=2 is for workers and servers, not for host.kind=local"),
        ({"kind": "ray", "address": "auto", "token_env": "T"}, "host.token_env=T is for servers"),
        ({"timeout": 0}, "host.timeout must be greater than 0, got 0"),
        ({"patience": -1}, "host.patience must be greater than 0, got -1"),
        ({"timeout": 5}, "host.timeout=5 is for workers and servers, not for host.kind=local"),
        ({"patience": 5}, "host.patience=5 is for workers and servers, not for host.kind=local"),
        ({"adress": "http://a"}, "host has no setting adress; its settings: kind, address,"),
    ],
)
def test_wrong_settings_are_named(settings, says):
    with pytest.raises(ValueError, match="^" + says.replace(".", r"\.")):
        HostSettings.of(settings)


@given(st.lists(st.integers(1, 9999), min_size=1, max_size=4), st.booleans())
def test_addresses_may_be_listed_or_separated_by_commas(ports, listed):
    addresses = [f"http://127.0.0.1:{port}" for port in ports]
    host = HostSettings.of({"address": addresses if listed else ", ".join(addresses)})
    assert (host.kind, host.addresses) == ("remote", tuple(addresses))
    assert hash(host) == hash(HostSettings.of({"kind": "remote", "address": host.address}))


# ---------------------------------------------------------------------------------------------- recipes and commands


def recipe(*overrides):
    pytest.importorskip("hydra")
    from agentgym_rl.engine.recipe.compose import load
    from agentgym_rl.engine.recipe.resolved import Resolved

    return Resolved(load(["experiment=smoke", "algorithm=bc", *overrides]))


def test_a_recipe_says_where_a_world_runs():
    pytest.importorskip("verl")
    from agentgym_rl.engine.verl.mapping import _common

    run = recipe("envs.textcraft.host.kind=remote", "envs.textcraft.host.address=http://a:1")
    assert run.hosts["textcraft"] == HostSettings(kind="remote", address="http://a:1")
    envs = _common(run, "model", Path("run"))["data.agentgym_envs"]
    assert HostSettings.of(envs["textcraft"]["host"]) == run.hosts["textcraft"]
    assert recipe().hosts["textcraft"] == HostSettings()


def test_a_recipe_says_which_program_plays(tmp_path, monkeypatch):
    """Its file is found from where the run started; agent loops have another current folder."""
    from agentgym_rl.engine.recipe.context import check_panels
    from agentgym_rl.engine.verl.mapping import _common
    from agentgym_rl.rollout.harness.settings import Harness

    monkeypatch.chdir(tmp_path)
    Path("agent.py").touch()
    run = recipe("envs.textcraft.harness.command='python agent.py'", "envs.textcraft.harness.max_tokens=99")
    told = _common(run, "model", Path("run"))["data.agentgym_envs"]["textcraft"]["harness"]
    monkeypatch.chdir("/")
    assert Harness.of(told).max_tokens == 99
    assert Harness.of(told).words == [sys.executable, str(tmp_path / "agent.py")]
    assert recipe().harnesses == {}
    check_panels(run, None, lambda *_: None)  # prompts are the harness's own and are not measured


def test_a_recipe_with_a_wrong_host_or_a_dead_server_is_refused():
    from agentgym_rl.engine.recipe.preflight import check_hosts

    with pytest.raises(ValueError, match=r"^envs\.textcraft\.host\.kind='clod' is unknown"):
        check_hosts(recipe("envs.textcraft.host.kind=clod"))
    with pytest.raises(EnvUnavailable, match=r"http://127\.0\.0\.1:1/create"):
        check_hosts(recipe("envs.textcraft.host.address=http://127.0.0.1:1"))
    with serving(["textcraft"]) as address:
        check_hosts(recipe(f"envs.textcraft.host.address={address}"))
    check_hosts(recipe())


def test_collecting_on_a_server_gives_the_same_file(tmp_path):
    from typer.testing import CliRunner

    from agentgym_rl.cli import app

    def collect(name, *options):
        out = tmp_path / name
        done = CliRunner().invoke(app, ["collect", "maze", "--split", "test", "--n", "6", "--out", str(out), *options])
        return done, out

    _, here = collect("here.json")
    with serving(["maze"]) as address:
        done, there = collect("there.json", "--address", address, "--concurrency", "3")
        assert done.exit_code == 0, done.output
        assert there.read_bytes() == here.read_bytes()
    done, _ = collect("dead.json", "--address", address)
    assert done.exit_code == 2 and f"POST {address}/create" in " ".join(done.stderr.split())
