"""The client against servers that talk as AgentGym's do, and against servers that fail."""

import asyncio
import math
import socket
import sys
from contextlib import AsyncExitStack, ExitStack

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep import swept
from upstream import STORIES, upstream

from agentgym_rl.envs import Task, http, make
from agentgym_rl.envs.core import EnvError, EnvTimeout, EnvUnavailable, ProtocolError, TaskNotFound
from agentgym_rl.envs.hosts import HostSettings, open_host
from agentgym_rl.envs.hosts.remote import _SERVERS, RemoteEnv
from agentgym_rl.envs.http import MAX_ANSWER_BYTES
from agentgym_rl.envs.pool import Pool
from agentgym_rl.envs.protocol.wire import DIALECTS

TASK = Task("textcraft", 3)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Short back-offs, so that tests need not wait."""
    monkeypatch.setattr("agentgym_rl.envs.pool.FIRST_BACKOFF", 0.02)
    monkeypatch.setattr("agentgym_rl.envs.pool.LONGEST_BACKOFF", 0.05)


@pytest.fixture(autouse=True)
def nothing_stays_open():
    """Every HTTP session is closed with its last lease."""
    yield
    made = [servers for of_loops in _SERVERS.values() for servers in of_loops._made.values()]
    _SERVERS.clear()
    assert all(servers._http is None and servers.pool.idle for servers in made)


@pytest.mark.skipif(sys.platform != "linux", reason="queues of connections are longer elsewhere")
def test_a_host_that_lets_connections_wait_is_absent(monkeypatch):
    async def ask(port):
        async with http.session() as session:
            await http.request(session, "GET", f"http://127.0.0.1:{port}/", 60)

    monkeypatch.setattr(http, "CONNECT_S", 0.3)
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        with pytest.raises(http.Absent, match=r"no connection within 0\.3 s"):
            asyncio.run(ask(server.getsockname()[1]))


def remote(name, address, style="agentgym", **settings):
    return RemoteEnv(name, HostSettings.of({"kind": "remote", "address": address, **settings}), style)


def installed(world):
    try:
        return make(world)
    except (EnvError, ModuleNotFoundError) as error:
        pytest.skip(str(error))


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


async def played(env, task, steps):
    seen = [(await env.reset(task)).text]
    for _ in range(steps):
        step = await env.step("look")
        seen.append((step.observation.text, step.reward, step.terminated, step.info["raw_reward"]))
    return seen


# ---------------------------------------------------------------------------------------------- every environment's
# dialect

EXPECTED = {
    "textcraft": ["Goal: craft x.", ("Got 1 y", 0, False, 0), ("Crafted 1 minecraft:x", 1, True, 1)],
    "babyai": [
        "Your goal: go to the ball", ("You see a ball", 0, False, 0), ("The task is completed.", 0.7, True, 0.7)
    ],
    "sciworld": [
        "Boil water.\nA kitchen.", ("You focus on the pot.", 0.08, False, 8), ("Nothing.", 0, False, 8),
        ("It boils.", 0.92, True, 100),
    ],
    "alfworld": [
        "A room.\nAVAILABLE ACTIONS: look,go to desk 1", ("A desk.", 0, False, 0), ("Done.", 1, True, 1)
    ],
    "maze": ["The goal is at position 8, 6.", ("A wall.", 0, False, -1), ("Success", 1, True, 1)],
    "wordle": [
        "Let's start Wordle!\nThe hidden word is one of these 2:\nshire panic",
        ("b b y b b", 0, False, 0), ("g g g g g", 1, True, 1)
    ],
    "webshop": [
        "WebShop [SEP] Instruction: [SEP] Find me shorts", ("Results", 0, False, 0), ("Thank you", 0.5, True, 0.5)
    ],
    "sqlgym": ["How many are there?", ("[(3,)]", 1, True, 1)],
    "searchqa": ["Question: who?", ("<information>...</information>", 0, False, 0), ("", 1, True, 1)],
    "movie": [
        STORIES["movie"].reset,
        ("Observation: 3\nGive me one action.", 0.5, False, 0.5),
        ("Observation: 3\nGive me one action.", 0, False, 0.5),
        ("Observation: 4\nGive me one action.", 0.5, True, 1),
    ],
    "webarena": ["OBJECTIVE: buy it", ("page 2", 0, False, 0), ("the end", 1, True, 1)],
}  # fmt: skip


@pytest.mark.parametrize("world", EXPECTED)
def test_every_dialect_of_agentgym(world):
    installed(world)

    async def main():
        async with upstream(world).running() as server:
            env = remote(world, server.address)
            seen = await played(env, Task(world, 7), len(EXPECTED[world]) - 1)
            with pytest.raises(ProtocolError):
                await env.step("look")
            await env.close()
            return seen, server

    seen, server = asyncio.run(main())
    first, *steps = EXPECTED[world]
    assert seen[0] == first
    for (text, reward, *rest), (expected_text, expected_reward, *expected_rest) in zip(seen[1:], steps, strict=True):
        assert (text, rest) == (expected_text, expected_rest)
        assert reward == pytest.approx(expected_reward)
    assert server.asked[0] == ("/create", server.story.needs_body)
    (reset,) = [body for path, body in server.asked if path == "/reset"]
    assert reset[server.story.reset_fields[0]] == 7
    assert not server.open or not server.story.closes


@pytest.mark.parametrize("world", ["textcraft", "movie"])
def test_every_episode_of_a_session_is_paid_anew(world):
    async def main():
        async with upstream(world).running() as server:
            env = remote(world, server.address)
            episodes = [await played(env, Task(world, 7), len(EXPECTED[world]) - 1) for _ in range(2)]
            await env.close()
            return episodes

    first, second = asyncio.run(main())
    assert first == second and sum(reward for _, reward, *_ in second[1:]) == 1


def test_the_last_message_of_a_world_that_reads_replies_itself():
    async def main():
        async with upstream("webarena").running() as server:
            env = remote("webarena", server.address)
            await env.reset(Task("webarena", 1))
            await env.step("click [12]")
            await env.close()
            return [body["action"] for path, body in server.asked if path == "/step"]

    assert asyncio.run(main()) == ["In summary, the next action I will perform is ```click [12]```"]


def test_babyai_is_paid_once():
    """AgentGym's server takes the end back and adds the reward again with every further action."""
    leak = [{"observation": "?", "reward": 0.325, "score": 0.325 * n, "done": False} for n in range(1, 7)]

    async def main():
        async with upstream("babyai", steps=leak).running() as server:
            env = remote("babyai", server.address)
            await env.reset(Task("babyai", 0))
            step = await env.step("move forward")
            await env.close()
            return step

    step = asyncio.run(main())
    assert (step.reward, step.terminated) == (0.325, True)


def test_a_reset_that_webarena_gave_up():
    story = {"observation": "TimeoutError", "sites": "Error", "object": "Error"}

    async def main():
        async with upstream("webarena", reset=story).running() as server:
            env = remote("webarena", server.address)
            with pytest.raises(EnvTimeout):
                await env.reset(Task("webarena", 0))
            await env.close()

    asyncio.run(main())


def test_a_world_is_found_at_its_name():
    async def main():
        async with upstream("maze").running() as server:
            env = remote("maze", server.address.removesuffix("/maze") + "/")
            first = await env.reset(Task("maze", 0))
            await env.close()
            return first.text

    assert asyncio.run(main()) == STORIES["maze"].reset["observation"]


@given(
    st.sampled_from(sorted(DIALECTS)),
    st.lists(st.tuples(st.floats(-1000, 1000), st.booleans()), min_size=1, max_size=8),
)
def test_rewards_and_their_sum_stay_in_0_to_1(world, reported):
    speech = DIALECTS[world]
    total = 0.0
    for number, done in reported:
        body = {speech.text: "", "reward": number, "score": number, speech.done: done}
        step = speech.read_step(body, total)
        assert 0 <= step.reward <= 1
        total += step.reward
        assert math.isfinite(total) and total <= 1 + 1e-9
        if step.done:
            break


# ------------------------------------------------------------------------------------------------- facts from here


def test_fixed_facts_are_those_of_the_installed_world():
    env, here = remote("textcraft", "http://127.0.0.1:1", "compact"), make("textcraft", style="compact")
    assert (env.spec, env.style) == (here.spec, "compact")
    assert env.goal(TASK) == here.goal(TASK)
    assert env.difficulty(TASK) == here.difficulty(TASK)
    assert env.oracle(TASK) == here.oracle(TASK)


def test_a_world_whose_tasks_are_others_here():
    env = remote("webarena", "http://127.0.0.1:1")
    assert env.spec.name == "webarena"
    assert env.spec.instructions["agentgym"] and env.spec.instructions["compact"]
    assert len(env.spec.splits["train"]) == 372
    assert set(env.spec.splits["train"]).isdisjoint(env.spec.splits["test"])


@pytest.mark.parametrize(
    ("world", "reply", "command"),
    [
        ("webshop", "Thought:\nbuy\n\nAction:\nclick[Buy Now]", "click[Buy Now]"),
        ("webshop", "search[red shoes]", "search[red shoes]"),
        ("webshop", "hello", ""),
        ("webarena", "Let's see. In summary, I will ```type [4] [a b] [1]```", "type [4] [a b] [1]"),
    ],
)
def test_replies_are_read_as_agentgym_does(world, reply, command):
    assert make(world).spec.read(reply).command == command


# ---------------------------------------------------------------------------------------------------- when it fails


def test_a_step_is_never_repeated():
    async def main():
        async with upstream().running() as server:

            async def drop(path, body):
                if path == "/step":
                    raise ConnectionResetError

            env = remote("textcraft", server.address, patience=0.2)
            await env.reset(TASK)
            server.before = drop
            with pytest.raises(EnvUnavailable, match=rf"POST {server.address}/step"):
                await env.step("get 1 y")
            with pytest.raises(ProtocolError):
                await env.step("get 1 y")
            server.before = None
            await env.reset(TASK)
            await env.close()
            return server.count("/step")

    assert asyncio.run(main()) == 1


class BrokenOff(web.Response):
    """An answer whose connection breaks."""

    async def prepare(self, request):
        request.transport.abort()
        return await super().prepare(request)


@pytest.mark.parametrize("status", [502, 503, 504, None])
def test_a_session_is_closed_after_an_answer_that_did_not_come(status):
    """Something between has lost the answer of a step (None: broken it off); the server still has the session."""

    async def main():
        async with upstream().running() as server:

            async def lose(path, body):
                if path == "/step":
                    return BrokenOff() if status is None else web.Response(status=status)

            server.before = lose
            env = remote("textcraft", server.address)
            await env.reset(TASK)
            with pytest.raises(http.Absent):
                await env.step("get 1 y")
            await env.close()
            return server.count("/close"), server.open

    assert asyncio.run(main()) == (1, {})


def test_a_session_on_a_server_that_is_gone_is_not_closed(caplog):
    async def main():
        async with upstream().running() as server:
            env, other = remote("textcraft", server.address), remote("textcraft", server.address)
            await env.reset(TASK)
            await other.reset(TASK)
        with pytest.raises(http.Unconnected):
            await env.step("get 1 y")
        assert env._lease.lost
        await env.close()
        await other.close()

    asyncio.run(main())
    assert "left open" not in caplog.text


def test_create_and_reset_go_to_another_server():
    async def main():
        async with AsyncExitStack() as stack:
            good, bad = [await stack.enter_async_context(upstream().running()) for _ in range(2)]

            async def broken(path, body):
                return web.Response(status=500, text="Internal Server Error") if path == fails_at else None

            bad.before = broken
            for fails_at in ("/create", "/reset"):  # noqa: B007
                await asyncio.sleep(0.1)  # both may be tried
                env = remote("textcraft", [bad.address, good.address])
                assert (await env.reset(TASK)).text == "Goal: craft x."
                await env.close()
            return good.count("/reset"), bad.count("/reset")

    assert asyncio.run(main()) == (2, 1)


def test_a_dead_server_is_left_alone_and_comes_back():
    async def main():
        gone = upstream()
        gone.port = free_port()
        async with upstream().running() as good:
            addresses = [gone.address, good.address]
            envs = [remote("textcraft", addresses) for _ in range(4)]
            await asyncio.gather(*(env.reset(TASK) for env in envs))
            assert good.count("/create") == 4
            async with gone.running():
                await asyncio.sleep(0.1)
                later = [remote("textcraft", addresses) for _ in range(4)]
                for env in later:
                    await env.reset(TASK)
                assert gone.count("/create") == 4
                for env in (*envs, *later):
                    await env.close()

    asyncio.run(main())


def test_no_server_at_all(searches):
    async def main():
        address = f"http://127.0.0.1:{free_port()}"
        env = remote("textcraft", address, patience=0.1)
        with pytest.raises(EnvUnavailable, match=rf"nothing answered within 0\.1 s \({address}: .* {address}/"):
            await env.reset(TASK)
        await env.close()

    asyncio.run(main())
    assert len(searches) == 1


def test_it_waits_for_a_server_that_starts():
    async def main():
        server = upstream()
        server.port = free_port()
        env = remote("textcraft", server.address, patience=20)
        waiting = asyncio.create_task(env.reset(TASK))
        await asyncio.sleep(0.1)
        async with server.running():
            first = await waiting
            await env.close()
            return first.text

    assert asyncio.run(main()) == "Goal: craft x."


def test_a_server_that_restarted():
    async def main():
        async with upstream().running() as server:
            env = remote("textcraft", server.address)
            await env.reset(TASK)
            server.restart()
            with pytest.raises(EnvUnavailable, match="The id 1 is not valid"):
                await env.step("get 1 y")
            await env.reset(TASK)
            server.restart()
            assert (await env.reset(TASK)).text == "Goal: craft x."
            assert (await env.step("get 1 y")).observation.text == "Got 1 y"
            await env.close()
            return server.count("/create")

    assert asyncio.run(main()) == 3


@pytest.mark.parametrize("world", ["textcraft", "maze"])
def test_a_session_whose_number_a_server_that_restarted_gives_out_again(world):
    """AgentGym's servers count sessions from the start, so that two episodes would move in one."""

    async def main():
        async with upstream(world).running() as server:
            env, other = remote(world, server.address), remote(world, server.address)
            await env.reset(Task(world, 1))
            server.restart()
            await other.reset(Task(world, 2))
            with pytest.raises(EnvUnavailable, match=r"session 1 of .* is lost: the server has started anew"):
                await env.step("look")
            await env.close()
            assert server.open == {1: 0}
            assert (await other.step("look")).observation.text == server.story.steps[0]["observation"]
            await other.close()

    asyncio.run(main())


@pytest.mark.parametrize("world", ["sqlgym", "webshop"])
def test_a_session_that_a_server_gives_out_while_it_is_in_use(world):
    """AgentGym's servers of these do so with each from the 9th and the 8,001st on; here from the third."""

    async def main():
        async with upstream(world, create=lambda number: 2 - number % 2).running() as server:
            envs = [remote(world, server.address, patience=0.2) for _ in range(3)]
            for env in envs[:2]:
                await env.reset(Task(world, 1))
            with pytest.raises(EnvUnavailable, match=r"no further session: it gave out [12] again; set host\.sessions"):
                await envs[2].reset(Task(world, 1))
            await envs[0].close()
            await envs[2].reset(Task(world, 1))
            for env in envs:
                await env.close()

    installed(world)
    asyncio.run(main())


@pytest.mark.parametrize("world", ["textcraft", "movie"])
def test_a_session_that_is_gone(world):
    """AgentGym's two families say it differently: an error under status 200, and status 500."""
    installed(world)

    async def main():
        async with upstream(world).running() as server:
            env = remote(world, server.address)
            await env.reset(Task(world, 3))
            server.restart()
            with pytest.raises(EnvUnavailable):
                await env.step("look")
            await env.close()

    asyncio.run(main())


def test_a_step_that_takes_too_long():
    async def main():
        async with upstream().running() as server:

            async def slow(path, body):
                if path == "/step":
                    await asyncio.sleep(30)

            server.before = slow
            env = remote("textcraft", server.address)
            await env.reset(TASK)
            env._lease.servers.timeout = 0.2
            with pytest.raises(EnvTimeout, match=r"/step: no answer within 0\.2 s"):
                await env.step("get 1 y")
            env._lease.servers.timeout = 60
            await env.reset(TASK)
            await env.close()
            return server

    server = asyncio.run(main())
    assert (server.count("/step"), server.count("/create"), server.open) == (1, 2, {})


@pytest.mark.parametrize("at", ["/create", "/reset", "/step"])
def test_a_cancelled_call_leaves_no_session_open(at):
    async def main():
        async with upstream().running() as server:
            reached, go_on = asyncio.Event(), asyncio.Event()

            async def hold(path, body):
                if path == at:
                    reached.set()
                    await go_on.wait()

            server.before = hold
            env = remote("textcraft", server.address)

            async def episode():
                try:
                    await env.reset(TASK)
                    await env.step("get 1 y")
                finally:
                    await env.close()

            task = asyncio.create_task(episode())
            await reached.wait()
            task.cancel()
            if at == "/create":
                go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            go_on.set()
            for _ in range(100):
                if server.count("/close") and not server.open:
                    break
                await asyncio.sleep(0.02)
            return server

    server = asyncio.run(main())
    assert (server.count("/close"), server.open) == (1, {})


def test_sessions_that_cannot_be_closed_are_used_again():
    installed("alfworld")

    async def main():
        async with upstream("alfworld").running() as server:
            for _ in range(3):
                env = remote("alfworld", server.address)
                await env.reset(Task("alfworld", 1))
                await env.close()
            server.restart()  # the one that is left is not known any more
            env = remote("alfworld", server.address)
            await env.reset(Task("alfworld", 1))
            await env.close()
            return server.count("/create")

    assert asyncio.run(main()) == 2


def test_sessions_that_could_not_be_closed_are_not_used_after_a_server_has_restarted():
    async def main():
        async with upstream("maze").running() as server:
            envs = [remote("maze", server.address) for _ in range(3)]
            for env in envs:
                await env.reset(Task("maze", 1))
            for env in envs:
                await env.close()
            server.restart()
            await envs[0].reset(Task("maze", 1))
            await envs[0].close()
            return server.count("/create")

    assert asyncio.run(main()) == 4


def test_the_least_loaded_server_is_next():
    async def main():
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(upstream().running()) for _ in range(3)]
            envs = [remote("textcraft", [server.address for server in servers]) for _ in range(7)]
            await asyncio.gather(*(env.reset(TASK) for env in envs))
            counts = sorted(len(server.open) for server in servers)
            for env in envs:
                await env.close()
            return counts

    assert asyncio.run(main()) == [2, 2, 3]


def test_no_more_sessions_than_a_server_may_have():
    async def main():
        async with upstream().running() as server:
            most = 0

            async def episode():
                nonlocal most
                env = remote("textcraft", server.address, sessions=2)
                await env.reset(TASK)
                most = max(most, len(server.open))
                await env.step("get 1 y")
                await env.close()

            await asyncio.gather(*(episode() for _ in range(9)))
            return most, server.count("/create")

    assert asyncio.run(main()) == (2, 9)


@pytest.mark.parametrize(
    ("kind", "raised"),
    [("TaskNotFound", TaskNotFound), ("UnknownSession", EnvUnavailable), ("ProtocolError", EnvError)],
)
@pytest.mark.parametrize("status", [200, 404, 409, 500])
def test_our_servers_say_what_an_error_is(kind, raised, status):
    async def main():
        async with upstream().running() as server:

            async def wrong(path, body):
                if path == "/reset":
                    return web.json_response({"error": "no", "detail": "no", "type": kind}, status=status)

            server.before = wrong
            env = remote("textcraft", server.address)
            with pytest.raises(raised):
                await env.reset(TASK)
            await env.close()
            assert not server.open

    asyncio.run(main())


def test_a_task_that_only_the_server_has():
    installed("alfworld")

    async def main():
        async with upstream("alfworld").running() as server:
            env, official = remote("alfworld", server.address), Task("alfworld", 2500)
            with pytest.raises(TaskNotFound):
                env.facts.difficulty(official)
            first = await env.reset(official)
            await env.close()
            return first.text, env.goal(official), env.difficulty(official)

    assert asyncio.run(main()) == (
        "A room.\nAVAILABLE ACTIONS: look,go to desk 1", "alfworld_2500", "unknown"
    )  # fmt: skip


def test_a_task_that_does_not_exist():
    error = {"error": "list index out of range"}

    async def main():
        async with upstream(reset=error).running() as server:
            env = remote("textcraft", server.address)
            with pytest.raises(TaskNotFound):
                await env.reset(Task("textcraft", 10**30))
            with pytest.raises(TaskNotFound):
                await env.reset(Task("maze", 0))
            with pytest.raises(EnvUnavailable, match="list index out of range"):
                await env.reset(TASK)
            await env.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (web.Response(text="<html>hello</html>"), "no JSON"),
        (web.json_response({"detail": "x"}, status=422), "status 422"),
        (web.json_response({"ok": 1}), "no session id"),
        (web.Response(body=b" " * (MAX_ANSWER_BYTES + 1)), "more than 16777216 bytes"),
        (web.Response(text="[" * 200_000), "no JSON"),
        (web.Response(text="9" * 5000), "no JSON"),
        (web.Response(body=b"\xff"), "no JSON"),
    ],
    ids=range(7),
)
def test_something_else_at_the_address(reply, says):
    async def main():
        async with upstream().running() as server:

            async def other(path, body):
                return web.Response(body=reply.body, status=reply.status, content_type=reply.content_type)

            server.before = other
            env = remote("textcraft", server.address)
            with pytest.raises(ProtocolError, match=says):
                await env.reset(TASK)
            with pytest.raises(ProtocolError, match=says):
                await open_host(HostSettings.of({"address": server.address})).check("textcraft")
            await env.close()

    asyncio.run(main())


def test_whether_servers_can_be_reached():
    async def main():
        async with upstream().running() as server:
            await open_host(HostSettings.of({"address": server.address})).check("textcraft")
            assert not server.open
            dead = f"http://127.0.0.1:{free_port()}"
            with pytest.raises(EnvUnavailable, match=dead):
                await open_host(HostSettings.of({"address": [server.address, dead]})).check("textcraft")
            with pytest.raises(ProtocolError, match="status 404"):
                await open_host(HostSettings.of({"address": server.address + "/nowhere"})).check("maze")

    asyncio.run(main())


def test_the_token_is_sent(monkeypatch):
    monkeypatch.setenv("TOKEN_OF_TEST", "secret\n")

    async def main():
        async with upstream().running() as server:
            env = remote("textcraft", server.address, token_env="TOKEN_OF_TEST")
            await env.reset(TASK)
            await env.close()
            return {headers.get("Authorization") for headers in server.headers}

    assert asyncio.run(main()) == {"Bearer secret"}
    with pytest.raises(ValueError, match=r"host\.token_env=NO_SUCH_TOKEN"):
        asyncio.run(remote("textcraft", "http://127.0.0.1:1", token_env="NO_SUCH_TOKEN").reset(TASK))


def test_the_connections_last_as_long_as_there_are_leases():
    async def main():
        async with upstream().running() as server:
            envs = [remote("textcraft", server.address) for _ in range(2)]
            for env in envs:
                await env.reset(TASK)
            client, other = (env._lease.servers._http for env in envs)
            assert client is other
            await envs[0].close()
            assert not client.closed
            await envs[1].close()
            await envs[1].close()
            assert client.closed

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------------------- pool


def test_a_member_is_left_alone_for_longer_and_longer(monkeypatch):
    now = 100.0
    monkeypatch.setattr("agentgym_rl.envs.pool.time.monotonic", lambda: now)
    monkeypatch.setattr("agentgym_rl.envs.pool.LONGEST_BACKOFF", 3.0)
    monkeypatch.setattr("agentgym_rl.envs.pool.FIRST_BACKOFF", 1.0)
    pool = Pool(["a"])
    (member,) = pool.members
    waits = []
    for _ in range(4):
        pool.failed(member, EnvUnavailable("down"))
        pool.failed(member, EnvUnavailable("others found out, too"))
        waits.append(member.back_at - now)
        now = member.back_at
    assert waits == [1.0, 2.0, 3.0, 3.0]
    assert (member.failures, member.fault) == (4, "down")


def test_what_many_callers_find_out_at_once_is_one_failure(monkeypatch):
    """Twelve callers come to a server that has room for four."""
    monkeypatch.setattr("agentgym_rl.envs.pool.FIRST_BACKOFF", 100.0)
    monkeypatch.setattr("agentgym_rl.envs.pool.LONGEST_BACKOFF", 1000.0)

    async def main():
        pool, together, callers = Pool(["a"]), asyncio.Barrier(12), iter(range(12))

        async def opened(name):
            number = next(callers)
            await together.wait()
            if number >= 4:
                raise EnvUnavailable(f"full for {number}")

        leases = [asyncio.create_task(pool.lease(opened, 1000)) for _ in range(12)]
        (member,) = pool.members
        while not member.failures or member.leases > 4:
            await asyncio.sleep(0)
        for lease in leases:
            lease.cancel()
        outcomes = await asyncio.gather(*leases, return_exceptions=True)
        return sum(isinstance(outcome, tuple) for outcome in outcomes), member.failures

    assert asyncio.run(main()) == (4, 1)


def test_an_attempt_that_takes_longer_than_patience_is_the_last(monkeypatch):
    """The other member's back-off has ended whenever an attempt fails, so that nobody ever waits."""
    tries = []

    async def hang(name):
        tries.append(name)
        await asyncio.sleep(0.1)
        raise EnvTimeout("hangs")

    async def main():
        with pytest.raises(EnvUnavailable, match=r"nothing answered within 0\.05 s \(a: hangs; b: hangs\)"):
            async with asyncio.timeout(2):
                await Pool(["a", "b"]).lease(hang, 0.05)

    asyncio.run(main())
    assert tries[:2] == ["a", "b"] and len(tries) <= 3


def test_patience_begins_when_the_last_member_fails():
    """Not while the only server is full."""

    async def main():
        pool, works = Pool(["a"], sessions=1), [True]

        async def opened(name):
            if not works[0]:
                raise EnvUnavailable("down")

        member, _ = await pool.lease(opened, 5)
        waiting = asyncio.create_task(pool.lease(opened, 0.4))
        await asyncio.sleep(0.5)
        works[0] = False
        pool.failed(member, EnvUnavailable("down"))
        pool.release(member)
        await asyncio.sleep(0.05)
        works[0] = True
        await waiting

    asyncio.run(main())


@settings(max_examples=swept(40))
@given(st.lists(st.tuples(st.sampled_from("lrf"), st.integers(0, 2)), max_size=40))
def test_leases_are_counted(moves):
    async def main(monkeypatch):
        monkeypatch.setattr("agentgym_rl.envs.pool.FIRST_BACKOFF", 1000)
        monkeypatch.setattr("agentgym_rl.envs.pool.LONGEST_BACKOFF", 1000)
        pool = Pool(["a", "b", "c"], sessions=4)
        held = []

        async def opened(name):
            return name

        for move, number in moves:
            if move == "l":
                working = [m for m in pool.members if not m.failures and m.leases < 4]
                if not working:
                    continue
                fewest = min(m.leases for m in working)
                member, name = await pool.lease(opened, 1)
                assert member.name == name and member in working and member.leases == fewest + 1
                held.append(member)
            elif move == "r" and held:
                pool.release(held.pop(number % len(held)))
            elif move == "f":
                pool.failed(pool.members[number], EnvUnavailable("down"))
            assert [m.leases for m in pool.members] == [held.count(m) for m in pool.members]
            assert pool.idle == (not held)

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(main(monkeypatch))
