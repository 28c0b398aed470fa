"""Which environment a server has, and which of its tasks are ours."""

import asyncio
import json
from dataclasses import replace

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("hydra")

from upstream import STORIES, ours, running, upstream

import agentgym_rl as ag
from agentgym_rl.data.panels import select
from agentgym_rl.engine.recipe.compose import load
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.envs import Task, make
from agentgym_rl.envs.core import OracleUnavailable, ProtocolError, TaskNotFound
from agentgym_rl.envs.hosts import HostSettings, open_host
from agentgym_rl.envs.hosts.remote import _OFFERS
from agentgym_rl.envs.numbering import digests
from agentgym_rl.envs.protocol.client.offers import Offer
from agentgym_rl.envs.protocol.wire import dialect


@pytest.fixture(autouse=True)
def nothing_is_known():
    yield
    _OFFERS.clear()


def host_at(*addresses):
    return open_host(HostSettings.of({"address": list(addresses)}))


def item_file(path, *item_ids):
    path.write_text(json.dumps([{"item_id": item_id} for item_id in item_ids]))
    return str(path)


def test_the_last_task_of_agentgyms_server_is_there_and_none_after_it():
    last = dialect("todo").tasks - 1
    spec = replace(make("todo").spec, splits={"fits": range(last + 1), "beyond": range(last + 2)})
    offer = Offer.of(dialect("todo"), "http://a", spec, {}, None)
    assert offer.unavailable.keys() == {"beyond"}
    offer.same(spec, Task("todo", last))
    with pytest.raises(TaskNotFound, match=f"has tasks 0 to {last}"):
        offer.same(spec, Task("todo", last + 1))


ON_AGENTGYM = {
    "textcraft": 500, "babyai": 3, "maze": 3, "wordle": 7, "sqlgym": 9500, "searchqa": 60000, "movie": 5,
    "weather": 300, "alfworld": 2500, "todo": 100, "sheet": 3, "academia": 3,
}  # fmt: skip
"""A task of AgentGym's by environment."""


@pytest.mark.parametrize("env", ON_AGENTGYM)
def test_a_panel_of_official_ids(env, tmp_path):
    task = Task(env, ON_AGENTGYM[env])
    with running(upstream(**({"world": env} if env in STORIES else {"world": "movie"}))) as server:
        host = host_at(server.address)
        panel = select(env, item_file(tmp_path / "ids.json", str(task)), host=host)
        session = host.facts(env, {})
        facts = session.goal(task), session.difficulty(task)
    assert panel.item_ids == (str(task),)
    if env in ("babyai", "maze"):  # the same tasks as here
        assert facts == (make(env).goal(task), make(env).difficulty(task))
    else:
        assert facts == (str(task), "unknown")


def test_an_evaluation_on_official_ids(tmp_path):
    ids = item_file(tmp_path / "ids.json", "movie_3", "movie_4")
    with running(upstream("movie")) as server:
        ag.evaluate(lambda messages: "Action: look", str(ids), host=host_at(server.address), out=tmp_path / "out")
        result = json.loads((tmp_path / "out" / "result.json").read_text())
        assert [(outcome["item_id"], outcome["success"]) for outcome in result["outcomes"]] == [
            ("movie_3", [True]), ("movie_4", [True])
        ]  # fmt: skip
        assert {outcome["difficulty"] for outcome in result["outcomes"]} == {"unknown"}


def test_a_run_on_official_ids(tmp_path):
    ids = item_file(tmp_path / "ids.json", "maze_3", "textcraft_500", "textcraft_501")
    with running(upstream()) as server:
        words = ["name=one", "env=textcraft", f"env.address={server.address}", f"envs.textcraft.split={ids}"]
        config = load([*words, f"envs.textcraft.panels={{test: {{split: {ids}}}}}", f"run.dir={tmp_path / 'run'}"])
        run = Resolved(config)
        assert run.panels["textcraft"]["test"].item_ids == ("textcraft_500", "textcraft_501")
        assert list(run.pools["textcraft"]) == [500, 501]
        assert not run.is_local(run.panels["textcraft"]["test"])
        _OFFERS.clear()
        maze = ["name=one", "env=maze", f"env.address={server.address}"]
        with pytest.raises(ProtocolError, match="not the server of maze"):
            _ = Resolved(load([*maze, f"run.dir={tmp_path / 'maze'}"])).panels


@pytest.mark.parametrize("env", ["maze", "searchqa", "sqlgym", "movie", "alfworld"])
def test_a_split_that_agentgym_does_not_have(env):
    with running(upstream(env)) as server:
        message = f"no split 'test' on {server.address}.*AgentGym's server has tasks 0 to .*file of AgentGym's item ids"
        with pytest.raises(ValueError, match=message):
            select(env, "test", host=host_at(server.address))


def test_a_task_that_agentgym_does_not_have(tmp_path):
    message = r"ids\.json, entry 2: maze_30 is not on .* 0 to 25"
    with running(upstream("maze")) as server, pytest.raises(ValueError, match=message):
        select("maze", item_file(tmp_path / "ids.json", "maze_3", "maze_30"), host=host_at(server.address))


def test_rows_for_verl_come_from_the_tasks_of_the_host(tmp_path):
    pytest.importorskip("torch")
    from agentgym_rl.engine.verl.dataset import TaskDataset

    ids = item_file(tmp_path / "ids.json", "maze_3", "maze_25")
    with running(upstream("maze")) as server:  # it has a maze_25
        config = {"agentgym_envs": {"maze": {"host": {"address": server.address}}}}
        assert [row["item_id"] for row in TaskDataset(f"maze:{ids}", config=config)] == ["maze_3", "maze_25"]
    with pytest.raises(ValueError, match=r"ids\.json, entry 2: maze has no task 25"):
        TaskDataset(f"maze:{ids}")
    config = {"agentgym_envs": {"textcraft": {"style": "compact", "harness": {"command": ["true"]}}}}
    assert len(TaskDataset(["textcraft:test:3", "maze_3"], config=config)) == 4


def test_tasks_with_other_goals_have_no_oracle():
    with running(upstream()) as server:
        env = host_at(server.address).facts("textcraft", {})
        with pytest.raises(OracleUnavailable, match=server.address):
            env.oracle(Task("textcraft", 3))


@pytest.mark.parametrize(("env", "served"), [("textcraft", "babyai"), ("textcraft", "sqlgym"), ("movie", "sciworld")])
def test_a_server_of_another_environment(env, served):
    story = STORIES[env]  # which would answer every request of the client
    with (
        running(upstream(env, hello=STORIES[served].hello, path=story.path)) as server,
        pytest.raises(ProtocolError, match=f"{server.address} .*not the server of {env}"),
    ):
        host_at(server.address).facts(env, {})


def test_our_server_has_our_tasks():
    with ours(maze={}) as address:
        assert select("maze", "test", host=host_at(address)) == select("maze", "test")
        with pytest.raises(ProtocolError, match="maze, not wordle"):
            host_at(f"{address}/maze").facts("wordle", {})


def test_a_part_plays_on_a_server_of_its_environment():
    with ours(maze={}) as address:
        host, task = host_at(address), Task("maze-far", 30)
        panel = select("maze-far", "test", host=host)
        assert panel.item_ids == tuple(id.replace("maze", "maze-far") for id in select("maze", "test").item_ids)
        assert host.facts("maze-far", {}).goal(task) == make("maze").goal(Task("maze", 30))

        async def first(env):
            try:
                return (await env.reset(task)).text
            finally:
                await env.close()

        assert asyncio.run(first(host.open("maze-far", {}))) == asyncio.run(first(make("maze-far")))


def test_our_server_with_other_options():
    """A split that options change is refused, the others are as here."""
    with ours(textcraft={"goals": 12}) as address:
        host = host_at(address)
        assert select("textcraft", "test", host=host) == select("textcraft", "test")
        with pytest.raises(ValueError, match=f"'train_variants' on {address}.*same options"):
            select("textcraft", "train_variants", n=3, host=host)
        _OFFERS.clear()
        same = {"options": {"goals": 12}}
        assert select("textcraft", "train_variants", n=3, host=host, **same) == select(
            "textcraft", "train_variants", n=3, **same
        )


def test_what_a_server_has_is_judged_for_the_options_that_are_asked_about():
    """An earlier verdict about other options is not theirs; the style changes no task."""
    with ours(textcraft={}) as address:
        host, wrong = host_at(address), {"goals": 12}
        assert not host.facts("textcraft", {}).spec.unavailable
        assert "train_variants" in host.facts("textcraft", wrong).spec.unavailable
        assert not host.facts("textcraft", {"style": "compact"}).spec.unavailable
        assert len(_OFFERS) == 2
        assert host.open("textcraft", {**wrong, "style": "compact"}).spec.unavailable


def test_servers_of_two_kinds():
    with (
        running(upstream("maze")) as server,
        ours(maze={}) as address,
        pytest.raises(ProtocolError, match="different tasks of maze"),
    ):
        asyncio.run(host_at(address, server.address).check("maze"))


def test_digests_change_with_goals(monkeypatch):
    env = make("textcraft")
    before = digests(env)
    assert list(before) == list(env.spec.splits)
    first = Task("textcraft", env.spec.splits["train"][0])
    monkeypatch.setattr(type(env), "goal", lambda self, task: "other" if task == first else str(task))
    assert digests(env)["train"] != before["train"]
