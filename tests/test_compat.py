"""Scripts written for AgentGym's own package."""

import subprocess
import sys

import pytest

pytest.importorskip("aiohttp")

from upstream import STORIES, running, upstream

from agentgym_rl.compat import agentenv, install
from agentgym_rl.compat.agentenv import envs
from agentgym_rl.compat.agentenv.controller import BaseEnvClient, BaseTask, Evaluator
from agentgym_rl.compat.agentenv.controller.types import StepOutput
from agentgym_rl.envs import make
from agentgym_rl.envs.core import ACKNOWLEDGEMENT, EnvError, EnvUnavailable, ProtocolError
from agentgym_rl.envs.protocol.wire import DIALECTS

REPLY = "Thought:\nWhy not.\n\nAction:\nget 1 y"


def test_every_name_of_agentgym_is_there():
    clients = {getattr(envs, name).env for name in envs.__all__ if name.endswith("EnvClient")}
    assert clients == set(DIALECTS)
    for name in envs.__all__:
        if name.endswith("Task"):
            task = getattr(envs, name)
            assert task.env_client_cls is getattr(envs, name.replace("Task", "EnvClient"))
            assert issubclass(task, BaseTask) and issubclass(task.env_client_cls, BaseEnvClient)
    assert agentenv.StepOutput is StepOutput
    assert agentenv.TextCraftTask.env_name == "TextCraft"


def test_a_client():
    with running(upstream()) as server:
        client = envs.TextCraftEnvClient(server.address, 200, timeout=60)
        assert len(client) == 200
        assert server.count("/create") == 1
        human, gpt = client.conversation_start
        instruction = make("textcraft").spec.instructions["agentgym"]
        assert human == {"from": "human", "loss": None, "value": instruction}
        assert gpt == {"from": "gpt", "loss": False, "value": ACKNOWLEDGEMENT}
        with pytest.raises(RuntimeError):
            client.observe()
        number = pytest.importorskip("numpy").int64(3)
        assert client.reset(number)["observation"] == client.observe() == "Goal: craft x."
        assert client.step("Action: get 1 y\nAction: get 2 y").done is False
        assert server.count("/step") == 0
        assert client.step(REPLY + "</s>") == StepOutput("Got 1 y", 0.0, False)
        assert client.observe() == "Got 1 y"
        assert client.step(REPLY) == StepOutput("Crafted 1 minecraft:x", 1.0, True)
        with pytest.raises(ProtocolError):
            client.step(REPLY)
        assert [body["action"] for path, body in server.asked if path == "/step"] == ["get 1 y"] * 2
        assert client.close() is True
        assert not server.open


@pytest.mark.parametrize(
    ("world", "rewards"), [("babyai", [0, 0.7]), ("sciworld", [8, 8, 100]), ("maze", [-1, 1]), ("movie", [0.5, 0.5, 1])]
)
def test_rewards_are_those_of_agentgym(world, rewards):
    names = {"babyai": "BabyAI", "sciworld": "Sciworld", "maze": "Maze", "movie": "Movie"}
    try:
        make(world)
    except (EnvError, ModuleNotFoundError) as error:
        pytest.skip(str(error))
    with running(upstream(world)) as server:
        client = getattr(envs, f"{names[world]}EnvClient")(server.address, 10)
        client.reset(0)
        assert [client.step("Action: look").reward for _ in rewards] == rewards
        client.close()


def test_some_worlds_read_the_whole_reply():
    with running(upstream("webarena")) as server:
        client = envs.WebarenaEnvClient(server.address, 10)
        client.reset(0)
        client.step("I think ```click [1]```")
        client.close()
        assert [body["action"] for path, body in server.asked if path == "/step"] == ["I think ```click [1]```"]


@pytest.mark.parametrize(
    ("action_format", "reply"),
    [
        ("default", "Action: click[Buy]"),
        ("react", "Action: click[Buy]"),
        ("function_calling", '{"thought": "", "function_name": "click", "arguments": {"item": "Buy"}}'),
        ("code_as_action", "```python\nclick('Buy')\n```"),
    ],
)
def test_action_formats(action_format, reply):
    with running(upstream("webshop")) as server:
        client = envs.WebshopEnvClient(server.address, 10, action_format=action_format)
        client.reset(0)
        assert client.step(reply).state == "Results"
        client.close()
        assert [body["action"] for path, body in server.asked if path == "/step"] == ["click[Buy]"]


@pytest.mark.parametrize(
    ("action_format", "reply"),
    [
        ("function_calling", '{"thought": "", "function_name": "finish", "arguments": {"answer": "3"}}'),
        ("code_as_action", "```python\nfinish('3')\n```"),
    ],
)
def test_action_formats_where_the_server_reads_the_whole_reply(action_format, reply):
    with running(upstream("movie")) as server:
        client = envs.MovieEnvClient(server.address, 10, action_format=action_format)
        client.reset(0)
        assert client.step("Nothing.").state.startswith("Error: ") and server.count("/step") == 0
        client.step(reply)
        client.close()
        assert [body["action"] for path, body in server.asked if path == "/step"] == [
            'Action: finish with Action Input: {"answer": "3"}'
        ]


def test_a_script_that_closes_nothing():
    """As AgentGym's do; its sessions are closed when Python ends."""
    with running(upstream()) as server:
        script = (
            "from agentgym_rl.compat.agentenv.envs import TextCraftEnvClient\n"
            f"print(TextCraftEnvClient({server.address!r}, 10).reset(1)['observation'])"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("Goal: craft x.\n", "")
        assert (server.made, server.open) == (1, {})


def test_no_server():
    with pytest.raises(EnvUnavailable):
        Impatient("http://127.0.0.1:1", 1)


class Impatient(envs.TextCraftEnvClient):
    patience = 0.05


class Scripted:
    """An agent that remembers what it read."""

    def __init__(self):
        self.read = []

    def generate(self, conversation):
        self.read.append(conversation)
        return REPLY, "some reasoning"


def test_an_evaluation_of_several_tasks():
    with running(upstream()) as server:
        agent, task = Scripted(), envs.TextCraftTask({"env_server_base": server.address, "data_len": 3})
        outcome = Evaluator(agent, [task]).eval(max_rounds=5, idxs=[0, 1, 2])
        assert (outcome.score, outcome.success, len(outcome.experiences)) == (1.0, 1.0, 3)
        first = outcome.experiences[0]
        assert [message["from"] for message in first.conversation] == ["human", "gpt"] * 3 + ["human"]
        assert [message["loss"] for message in first.conversation] == [None, False, None, True, None, True, None]
        assert first.reward == 1.0 and REPLY in first.text
        assert [message["role"] for message in agent.read[0]] == ["user", "assistant", "user"]
        assert agent.read[0][2]["content"] == STORIES["textcraft"].reset["observation"]
        assert [body["data_idx"] for path, body in server.asked if path == "/reset"] == [0, 1, 2]
        short = Evaluator(lambda messages: REPLY, [task]).eval(max_rounds=1)
        assert (short.score, short.success, len(short.experiences)) == (0.0, 0.0, 3)
        for client in task.clients:
            client.close()


class Bandit(BaseEnvClient):
    """An environment of a script's own: task i pays i."""

    conversation_start = ()

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.idx = 0

    def __len__(self):
        return 3

    def observe(self):
        return "Pull."

    def reset(self, idx):
        self.idx = idx

    def step(self, action):
        return StepOutput("Clack.", 50.0 * self.idx, True)


class BanditTask(BaseTask):
    env_client_cls = Bandit
    env_name = "Bandit"


@pytest.mark.parametrize(("idxs", "rewards"), [(None, [0, 50, 100] * 2), ([2], [100]), ([[0], [1, 2]], [0, 50, 100])])
def test_which_tasks_are_played(idxs, rewards):
    evaluator = Evaluator(lambda messages: "pull", [BanditTask({}), BanditTask({"action_format": "react"}, 2)])
    outcome = evaluator.eval(idxs=idxs)
    assert [experience.reward for experience in outcome.experiences] == rewards
    assert outcome.score == sum(rewards) / len(rewards)
    assert outcome.success == rewards.count(100) / len(rewards)


@pytest.mark.parametrize("idxs", [[], [0, [1]], [[0]], [[0], [1], [2]]])
def test_tasks_that_make_no_sense(idxs):
    with pytest.raises(ValueError, match="idxs"):
        Evaluator(lambda messages: "pull", [BanditTask({}), BanditTask({})]).eval(idxs=idxs)


def test_scripts_may_go_on_importing_agentenv(monkeypatch):
    for name in ("agentenv", "agentenv.controller", "agentenv.controller.types", "agentenv.envs"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)
    install()
    install()
    from agentenv.controller import Evaluator as Theirs
    from agentenv.controller.types import ConversationMessage
    from agentenv.envs import TextCraftEnvClient

    assert (Theirs, TextCraftEnvClient) == (Evaluator, envs.TextCraftEnvClient)
    assert ConversationMessage is agentenv.ConversationMessage
    monkeypatch.setitem(sys.modules, "agentenv", sys)
    with pytest.raises(RuntimeError, match="already"):
        install()
