"""Programs as episodes: how they end, what of them counts, and that nothing of them is left."""

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from chat_server import ChatServer
from gateways import echo, failing, says

from agentgym_rl.api.evaluation import evaluate
from agentgym_rl.api.policies import closing
from agentgym_rl.api.request import read
from agentgym_rl.data.episode import Ending
from agentgym_rl.envs import make
from agentgym_rl.envs.core import Task
from agentgym_rl.rollout.conversation import NoFurtherEpisode, Response
from agentgym_rl.rollout.gateway.texts import TextChat
from agentgym_rl.rollout.harness import policy as policy_module
from agentgym_rl.rollout.harness import process
from agentgym_rl.rollout.harness.policy import HarnessPolicy
from agentgym_rl.rollout.harness.run import Assignment, run_harness
from agentgym_rl.rollout.harness.settings import Harness
from agentgym_rl.rollout.harness.shared import SharedGateway
from agentgym_rl.rollout.policies.scripted import Function, Oracle
from agentgym_rl.rollout.settings import RolloutSettings

pytest.importorskip("fcntl", reason="POSIX only")

TASK = Task("harness", 3)
ASK = """
import json, os, sys, time, signal, subprocess
from urllib.request import ProxyHandler, Request, build_opener

def post(url, body):
    head = {"Authorization": "Bearer " + os.environ["AGENTGYM_KEY"]}
    with build_opener(ProxyHandler({})).open(Request(url, json.dumps(body).encode(), head)) as told:
        return json.load(told)

def ask(text):
    body = {"messages": [{"role": "user", "content": text}]}
    return post(os.environ["AGENTGYM_BASE_URL"] + "/chat/completions", body)["choices"][0]["message"]["content"]

def reward(number):
    post(os.environ["AGENTGYM_REWARD_URL"], {"reward": number})

task = json.loads(os.environ["AGENTGYM_TASK"])
"""


@pytest.fixture
def script(tmp_path):
    """Writes a harness; gives its command."""

    def write(code):
        file = tmp_path / "agent.py"
        file.write_text(ASK + textwrap.dedent(code))
        return ["python", str(file)]

    return write


def run(command=(), chat=None, task=TASK, facts=None, retries=0, seconds=60, max_turns=50, **rules):
    """The episode of a harness."""
    harness = Harness(command=command, **rules)
    settings = RolloutSettings(retries=retries, episode_seconds=seconds)
    work = Assignment(task=task, max_turns=max_turns, facts=facts or {})

    async def play():
        shared = SharedGateway()
        made, _ = await run_harness(harness, work, settings, shared, lambda: chat or says("hello"))
        assert len((await shared.opened()).sessions) == 0, "every session is closed"
        await shared.close()
        return made

    return asyncio.run(play())


def test_a_reward_ends_an_episode(script):
    episode = run(script('said = ask("go " + task["word"]); ask("on"); reward(0.75)'), facts={"word": "there"})
    assert (episode.ending, episode.reward, episode.success) == (Ending.TERMINATED, 0.75, True)
    assert [(turn.response, turn.observation, turn.reward) for turn in episode.turns] == [
        ("hello", "on", 0.0),
        ("hello", "", 0.75),
    ]
    assert [message["content"] for message in episode.messages] == ["go there", "hello", "on", "hello"]
    assert episode.item_id == "harness_3" and episode.start == 1 and episode.error is None


def test_a_part_of_a_run_has_the_tasks_of_its_environment(script):
    """So that a program which makes the environment itself plays any part."""
    episode = run(script('ask(task["item_id"]); reward(1)'), chat=echo(), task=Task("maze-far", 4))
    assert (episode.item_id, episode.turns[0].response) == ("maze-far_4", "maze_4")


def test_a_reward_that_was_told_counts_however_the_program_ends(script, monkeypatch):
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    assert run(script('ask("go"); reward(1); sys.exit(3)')).reward == 1
    begun = time.monotonic()
    assert run(script('ask("go"); reward(1); time.sleep(1000)')).reward == 1
    assert time.monotonic() - begun < 60


def test_a_crash_is_the_harnesss_failure(script):
    episode = run(script('ask("go"); raise KeyError("lost")'))
    assert (episode.ending, episode.reward, episode.success) == (Ending.TERMINATED, 0, False)
    assert "exited with status 1" in episode.error and "KeyError: 'lost'" in episode.error
    assert run(script('ask("go"); os.abort()')).ending is Ending.TERMINATED


def test_kill_9_from_outside_is_the_infrastructures(script):
    episode = run(script('ask("go"); os.kill(os.getpid(), signal.SIGKILL)'), retries=1)
    assert episode.ending is Ending.ENV_ERROR and not episode.ending.counts
    assert "signal 9 from outside ended the harness" in episode.error and episode.attempts == 2


def test_a_program_that_ends_before_a_reply_is_the_infrastructures(script):
    episode = run(script("import a_package_nobody_has"))
    assert episode.ending is Ending.ENV_ERROR and "before the model had replied" in episode.error
    assert "a_package_nobody_has" in episode.error


def test_a_model_that_fails_is_the_infrastructures(script):
    episode = run(script('ask("go")'), failing(OSError("no GPU")))
    assert not episode.ending.counts and "no GPU" in episode.error


def test_what_ends_the_whole_work_is_raised(script):
    with pytest.raises(NoFurtherEpisode, match="no credit"):
        run(script('ask("go")'), failing(NoFurtherEpisode("no credit")))


def test_time_that_is_up_is_a_timeout(script):
    episode = run(script('ask("go"); time.sleep(1000)'), seconds=3)
    assert episode.ending is Ending.TIMEOUT and "longer than 3 s" in episode.error


def test_a_program_may_ask_nothing_for_as_long_as_its_episode_may_take(script, monkeypatch):
    shared = SharedGateway()
    work, harness = Assignment(task=TASK, max_turns=5), Harness(command=script('ask("go"); time.sleep(0.3); reward(1)'))

    async def play():
        gateway = await shared.opened()
        monkeypatch.setattr(gateway.sessions, "_clock", lambda: time.monotonic() * 1e6)
        running = asyncio.create_task(run_harness(harness, work, RolloutSettings(), shared, lambda: says("hello")))
        while not running.done():
            assert gateway.sessions.reclaim() == []
            await asyncio.sleep(0.05)
        await shared.close()
        return (await running)[0].reward

    assert asyncio.run(play()) == 1


def test_a_limit_of_turns_ends_the_episode_which_counts(script):
    loop = script('while True: ask("again")')
    episode = run(loop, max_turns=2)
    assert (episode.ending, episode.reward, len(episode.turns)) == (Ending.TURN_LIMIT, 0, 2)
    graded = run(loop, max_turns=2, grade_command=["true"])
    assert (graded.ending, graded.reward) == (Ending.TURN_LIMIT, 1)


def test_a_limit_of_tokens_ends_the_episode_which_counts(script):
    """The harness sees its code; an API's tokens are those that it counts."""
    code = """
    from urllib.error import HTTPError
    try:
        while True: ask("again")
    except HTTPError as error:
        print(json.load(error)["error"]["code"], file=open("code", "w"))
    """
    seen = [sys.executable, "-c", "assert open('code').read() == 'token_limit\\n'"]
    episode = run(script(code), says("hello", counted=(9, 4)), max_tokens=8, grade_command=seen)
    assert (episode.ending, episode.reward, len(episode.turns)) == (Ending.CONTEXT_LIMIT, 1, 2)


def test_memory_is_limited(script):
    episode = run(script('ask("go"); held = bytearray(1 << 30); reward(1)'), memory_mb=300)
    assert episode.reward == 0 and "MemoryError" in episode.error


def test_a_harness_without_a_reward_is_told_what_to_give(script):
    episode = run(script('ask("go")'))
    assert not episode.ending.counts and "post one to $AGENTGYM_REWARD_URL" in episode.error


DONE = {"grade_command": [sys.executable, "-c", "open('done')"]}


@pytest.mark.parametrize(
    ("left", "rules", "reward"),
    [
        ("print(1, file=open('done', 'w'))", DONE, 1),
        ("", DONE, 0),
        ("print(0.25, file=open('reward.txt', 'w'))", {"grade_file": "reward.txt"}, 0.25),
        ("print('much', file=open('reward.txt', 'w'))", {"grade_file": "reward.txt"}, 0),
        ("", {"grade_file": "reward.txt"}, 0),
        ("print(1, ' ' * 500, file=open('reward.txt', 'w'))", {"grade_file": "reward.txt"}, 1),
        ("os.mkfifo('reward.txt')", {"grade_file": "reward.txt"}, 0),
        ("os.symlink('/dev/zero', 'reward.txt')", {"grade_file": "reward.txt"}, 0),
        ("print('x' * 5, file=open('done', 'w'))", {"grade_function": "harness_functions:letters"}, 0.5),
    ],
)
def test_a_grader_gives_the_reward(script, functions, left, rules, reward):
    episode = run(script(f'ask("go")\n{left}'), **rules)
    assert (episode.ending, episode.reward) == (Ending.TERMINATED, reward)


FUNCTIONS = """
def letters(task, folder):
    return len((folder / "done").read_text().strip()) / 10

def broken(task, folder):
    return 7

def right(task, folder):
    return True

def late(task, folder):
    raise TimeoutError(110, "db.example:5432 does not answer")

def slow(task, folder):
    import time
    time.sleep(0.3)

def asks(task, base_url, key):
    from urllib.request import Request, urlopen
    body = b'{"messages": [{"role": "user", "content": "go"}]}'
    urlopen(Request(f"{base_url}/chat/completions", body, {"Authorization": f"Bearer {key}"}))

async def agent(task, base_url, key):
    asks(task, base_url, key)
    return 0.5 if task["item_id"] == "harness_3" else 0

def solved(task, base_url, key):
    asks(task, base_url, key)
    return task["item_id"] == "harness_3"

def too_much(task, base_url, key):
    asks(task, base_url, key)
    return 1.5
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    folder.joinpath("harness_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")])))
    yield
    sys.modules.pop("harness_functions", None)


def test_a_grader_that_fails_is_the_infrastructures(script, functions):
    episode = run(script('ask("go")'), grade_function="harness_functions:broken")
    assert episode.ending is Ending.ENV_ERROR and "gives 7; a reward is a number from 0 to 1" in episode.error


def test_a_function_is_a_harness(functions):
    assert run(function="harness_functions:agent").reward == 0.5


def test_a_truth_that_a_function_returns_is_a_reward(functions):
    assert run(function="harness_functions:solved").reward == 1
    graded = run(function="harness_functions:asks", grade_function="harness_functions:right")
    assert (graded.reward, graded.error) == (1, None)


def test_a_function_whose_reward_is_refused_reads_why(functions):
    episode = run(function="harness_functions:too_much")
    assert (episode.ending, episode.reward) == (Ending.TERMINATED, 0)
    assert "the reward is 1.5; the gateway says: " in episode.error and "a number r from 0 to 1" in episode.error


def test_a_time_limit_of_a_graders_own_is_not_ours(functions):
    episode = run(function="harness_functions:asks", grade_function="harness_functions:late")
    assert episode.ending is Ending.ENV_ERROR
    assert episode.error.endswith("the grader failed: TimeoutError: [Errno 110] db.example:5432 does not answer")
    slow = run(function="harness_functions:asks", grade_function="harness_functions:slow", grade_seconds=0.05)
    assert slow.ending is Ending.TIMEOUT and "the grader took longer than 0.05 s" in slow.error


@pytest.mark.parametrize("lingers", [False, True])
def test_a_reward_without_a_reply_of_the_model_is_the_infrastructures(script, monkeypatch, lingers):
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    episode = run(script(f"reward(1); time.sleep({99 * lingers})"))
    assert episode.ending is Ending.ENV_ERROR
    assert "told a reward, but never had a reply of the model" in episode.error


def test_a_models_side_is_closed_with_its_session(script):
    """A request that is still being read then asks the model nothing."""
    closed, chat = [], says("hello")
    chat.close = lambda: closed.append(chat)
    run(script('ask("go"); sys.exit(1)'), chat)
    assert closed == [chat]


def ended(pid):
    """Whether a process has ended; what nobody has waited for yet is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_nothing_of_a_harness_is_left(script):
    """Neither its child, nor one that has left its process group."""
    child = f"[{sys.executable!r}, '-c', 'import time; time.sleep(1000)']"
    episode = run(
        script(f"""
        ask("go")
        pids = [subprocess.Popen({child}, start_new_session=apart).pid for apart in (False, True)]
        ask(" ".join(map(str, [os.environ["AGENTGYM_SESSION"], *pids])))
        reward(1)
        """)
    )
    mark, *pids = episode.turns[0].observation.split()
    assert episode.reward == 1 and len(pids) == 2
    assert process.marked(mark) == []
    for pid in map(int, pids):
        for _ in range(100):
            if ended(pid):
                break
            time.sleep(0.05)
        else:
            os.kill(pid, signal.SIGKILL)
            pytest.fail(f"{pid} still runs")


OWNER = """
import asyncio, sys
from gateways import says
from agentgym_rl.envs.core import Task
from agentgym_rl.rollout.harness.run import Assignment, run_harness
from agentgym_rl.rollout.harness.settings import Harness
from agentgym_rl.rollout.harness.shared import SharedGateway
from agentgym_rl.rollout.settings import RolloutSettings

work = Assignment(task=Task("harness", 3), max_turns=5)
harness = Harness(command=sys.argv[1:])
asyncio.run(run_harness(harness, work, RolloutSettings(), SharedGateway(), lambda: says("hello")))
"""


def test_kill_9_of_the_gateway_leaves_no_harness(script, tmp_path):
    """The gateway is in the process that runs the episodes, so nothing of it is there any more to end them."""
    up = tmp_path / "up"
    code = f'ask("go"); open({str(up)!r}, "w").write(os.environ["AGENTGYM_SESSION"]); time.sleep(99)'
    paths = filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, *script(code)], env=env)
    while not up.exists() or not up.read_text():
        assert owner.poll() is None
        time.sleep(0.05)
    mark = up.read_text()
    assert len(process.marked(mark)) == 1
    owner.kill()
    owner.wait()
    until = time.monotonic() + 20
    while process.marked(mark):
        assert time.monotonic() < until, "the harness runs on"
        time.sleep(0.05)


def test_a_gateway_that_ends_is_the_infrastructures_and_replaced(script):
    """The harness gets no answer and exits with an error, which is not its doing."""
    shared = SharedGateway()
    code = 'ask("go"); time.sleep(0.5); ask("on"); reward(1)'
    work, harness = Assignment(task=TASK, max_turns=5), Harness(command=script(code))
    gateways, stopping = [], []

    async def ask(messages, room):
        gateway = await shared.opened()
        if gateway not in gateways:
            gateways.append(gateway)
        if len(gateways) == 1:
            stopping.append(asyncio.create_task(gateway.stop()))
        return Response("hello")

    async def play(retries):
        gateways.clear()
        settings = RolloutSettings(retries=retries)
        episode, _ = await run_harness(harness, work, settings, shared, lambda: TextChat(ask))
        await shared.close()
        return episode

    lost = asyncio.run(play(0))
    assert not lost.ending.counts and "the gateway's server ended" in lost.error
    again = asyncio.run(play(1))
    assert (again.reward, again.attempts, len(gateways)) == (1, 2, 2)


def test_an_episode_that_is_cancelled_leaves_nothing(script, tmp_path):
    up = tmp_path / "up"
    code = f'open({str(up)!r}, "w").write(os.environ["AGENTGYM_SESSION"]); time.sleep(99)'
    harness = Harness(command=script(code))
    work, settings = Assignment(task=TASK, max_turns=5), RolloutSettings()

    async def play():
        shared = SharedGateway()
        running = asyncio.create_task(run_harness(harness, work, settings, shared, lambda: says("hello")))
        while not up.exists() or not up.read_text():
            await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        left = len((await shared.opened()).sessions)
        await shared.close()
        return left

    assert asyncio.run(play()) == 0
    assert process.marked(up.read_text()) == []


def test_a_harness_is_evaluated_like_any_policy(script):
    """Its score is one number; the environment gives the tasks, their goals and the turn limit."""
    command = script('assert ask(task["goal"]) == "hello"; reward(task["sample"] % 2)')
    keys = {"samples": 2, "concurrency": 4, "temperature": 1, "harness": shlex.join(command)}
    evaluated = evaluate(lambda messages: "hello", "maze:test:2", **keys)
    assert evaluated.success.value == 0.5 and [record.reward for record in evaluated.records] == [0, 1, 0, 1]
    assert evaluated.records[0].messages[0]["content"] == make("maze").goal(Task.parse(evaluated.records[0].item_id))
    assert evaluated.records[0].max_turns == make("maze").spec.max_turns
    assert "agent.py with <lambda>" in str(evaluated)
    assert read(["panel=maze:test", "policy=oracle", "harness=python agent.py"]).harness == "python agent.py"


def test_a_harness_is_evaluated_with_a_model_behind_an_api(script, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    command = script('reward(float(ask(task["goal"]) == "hello"))')
    keys = {"samples": 1, "concurrency": 2, "temperature": 1, "harness": shlex.join(command)}
    server = ChatServer(lambda messages: "hello")
    evaluated = asyncio.run(server.during(lambda name: asyncio.to_thread(evaluate, name, "maze:test:2", **keys)))
    assert (evaluated.success.value, len(server.requests)) == (1, 2)
    assert all(request["messages"][0]["content"] for request in server.requests)


def test_a_function_is_evaluated_by_its_name(functions):
    keys = {"samples": 1, "concurrency": 2, "temperature": 1}
    evaluated = evaluate(lambda messages: "hello", "maze:test:2", **keys, harness="harness_functions:agent")
    assert [record.reward for record in evaluated.records] == [0, 0] and "harness_functions:agent with" in str(
        evaluated
    )


def test_an_edited_program_is_another_evaluation(script, functions, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = {"harness": shlex.join(script("ask(task['goal']); reward(1)")), "temperature": 1, "out": "kept"}
    evaluate(lambda messages: "hello", "maze:test:1", **keys)
    evaluate(lambda messages: "hello", "maze:test:1", **keys)
    script("ask(task['goal']); reward(0)")
    with pytest.raises(ValueError, match="another weights"):
        evaluate(lambda messages: "hello", "maze:test:1", **keys)
    before = Harness(function="harness_functions:agent").digest
    with Path("site/harness_functions.py").open("a") as file:
        file.write("# edited\n")
    assert Harness(function="harness_functions:agent").digest != before != ""


def test_what_grades_and_limits_a_harness_tells_its_results_apart(tmp_path):
    grader = tmp_path / "grader.py"
    grader.write_text("def grade(task, folder): return 1")
    given = (
        {}, {"max_tokens": 9}, {"env": {"LEVEL": "2"}}, {"grade_file": "reward.txt"},
        {"grade_function": f"{grader}:grade"}, {"grade_command": ["python", str(grader)]},
    )  # fmt: skip
    harnesses = [Harness(command=["true"], **settings) for settings in given]
    digests = [harness.digest for harness in harnesses]
    assert len({*digests}) == len(given)
    grader.write_text("def grade(task, folder): return 0")
    changed = [harness.digest != digest for harness, digest in zip(harnesses, digests, strict=True)]
    assert changed == [False] * 4 + [True] * 2
    assert Harness(command=["true"], concurrency=2, grade_seconds=9).digest == digests[0]


def test_a_harness_is_told_what_its_model_should_read_first(script):
    policy = HarnessPolicy(
        Harness(command=script('ask(task["preface"]); reward(1)')), Function(lambda messages: "hello")
    )
    policy.prompts = {"maze": "Keep right."}
    env = make("maze")
    task = Task("maze", env.spec.splits["test"][0])
    episode = asyncio.run(closing(policy, policy.run(env, task, RolloutSettings(retries=0))))
    assert episode.messages[0]["content"] == "Keep right."


@pytest.mark.parametrize("thinking", ["keep", "strip"])
def test_a_harness_is_evaluated_with_the_thinking_that_it_was_trained_with(script, tokenizer, monkeypatch, thinking):
    from agentgym_rl.rollout.policies.model import TransformersModel

    chats = []

    async def run_harness(harness, work, settings, shared, make_chat):
        return "played", chats.append(make_chat())

    monkeypatch.setattr(policy_module, "run_harness", run_harness)
    model = TransformersModel(tokenizer.name_or_path, temperature=1, seed=0)
    policy, env = HarnessPolicy(Harness(command=["true"]), model), make("maze")
    task = Task("maze", env.spec.splits["test"][0])
    assert asyncio.run(policy.run(env, task, RolloutSettings(thinking=thinking))) == "played"
    assert chats[0].thinking == thinking


def test_a_harness_samples_and_reads_as_its_model_does():
    model = Function(lambda messages: "hello")
    model.temperature, model.prompts = 0.7, {"maze": "Keep right."}
    policy = HarnessPolicy(Harness(command=["true"]), model)
    assert (policy.temperature, policy.prompts, policy.exemplars) == (0.7, model.prompts, None)
    with pytest.raises(ValueError, match=r"temperature=0.5 has no effect: true with .* samples at 0.7"):
        evaluate(policy, "maze:test:1", temperature=0.5)


def test_a_gateway_serves_one_event_loop_after_another():
    shared = SharedGateway()

    async def work():
        first, second = await asyncio.gather(shared.opened(), shared.opened())
        await shared.close()
        return first is second

    assert [asyncio.run(work()) for _ in range(2)] == [True, True]


def test_a_policy_that_reads_no_messages_is_no_model(script):
    with pytest.raises(ValueError, match="policy 'oracle' needs an environment"):
        HarnessPolicy(Harness(command=["true"]), Oracle())


def test_settings_are_read_from_a_mapping(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_agent.py").write_text("def play(task, url, key): return 1")
    harness = Harness.of({"command": "python my_agent.py 'a b'", "grade_command": ["true"]}).anywhere()
    assert harness.command == [sys.executable, str(tmp_path / "my_agent.py"), "a b"]
    assert Path(harness.grade_command[0]).is_absolute() and harness.anywhere() == harness
    assert Harness.of({"function": "my_agent.py:play"}).anywhere().function == f"{tmp_path}/my_agent.py:play"
    with pytest.raises(ValueError, match="harness has no setting word; its settings: command, function"):
        Harness.of({"word": 1})


def test_a_word_that_is_too_long_for_a_path_is_no_file():
    long = "print(1);" * 50
    for words in (["python", "-c", long], ["python", f"{long}.py"]):
        graded = Harness(command=["true"], grade_command=words)
        assert graded.anywhere().grade_command == [sys.executable, *words[1:]] and graded.digest
    assert Harness(command=["bash", "-c", long]).words[1:] == ["-c", long]
    with pytest.raises(ValueError, match="there is no file"):
        Harness(command=["python", f"{long}.py"])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({}, "give either harness.command or harness.function"),
        ({"command": ["no-such-program"]}, "there is no program 'no-such-program'"),
        ({"command": ["python", "no_agent.py"]}, "there is no file 'no_agent.py' from /"),
        ({"function": "agent"}, "is neither module:function nor file.py:function"),
        ({"function": "json:nothing"}, "cannot be imported"),
        ({"command": ["true"], "memory_mb": 0}, "harness.memory_mb is 0"),
        ({"command": ["true"], "concurrency": 0}, "harness.concurrency is 0"),
        ({"command": ["true"], "grade_file": "a", "grade_command": ["true"]}, "are both given"),
    ],
)
def test_wrong_settings_are_told(rules, message):
    with pytest.raises(ValueError, match=message):
        Harness(**rules)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"command": True}, "harness.command is True; give a text or a list of texts"),
        ({"command": ["ls", 1]}, "harness.command is ['ls', 1]; give a text or"),
        ({"command": "'ls"}, "which no shell reads: No closing quotation"),
        ({"function": 3}, "harness.function is 3; give a text"),
        ({"command": "ls", "memory_mb": "1G"}, "harness.memory_mb is '1G'; give a whole number"),
        ({"command": "ls", "concurrency": None}, "harness.concurrency is None; give a whole number"),
        ({"command": "ls", "max_tokens": 2.5}, "harness.max_tokens is 2.5; give a whole number"),
        ({"command": "ls", "grade_seconds": False}, "harness.grade_seconds is False; give a number"),
        ({"command": "ls", "grade_file": 2}, "harness.grade_file is 2; give a text"),
        ({"command": "ls", "env": ["A"]}, "harness.env is ['A']; give a text for each variable"),
    ],
)
def test_settings_of_another_kind_are_told(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Harness.of(settings)


def test_a_variable_may_be_a_number():
    assert Harness.of({"command": "ls", "env": {"LEVEL": 1}}).env == {"LEVEL": "1"}
