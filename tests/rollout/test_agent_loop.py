"""One row of a dataset in, one output for verl's trainer out."""

import asyncio
import json
import re

import numpy as np
import pytest
import toy
from fake_server import FakeServer

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.envs.core import EnvUnavailable
from agentgym_rl.rollout.prefix import Prefix, Replayed

pytestmark = pytest.mark.usefixtures("toys")

SOLUTION = ("Action: say 1", "Action: say 2", "Action: say 3")
VERLS_SAMPLING = {"temperature": 0.9, "top_p": 0.8}


def server_for(tokenizer, *replies, **fields):
    return FakeServer([[*tokenizer.encode(reply), tokenizer.eos_token_id] for reply in replies], **fields)


def run(tokenizer, server, rules=None, envs=None, recorder=None, **row):
    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap

    from agentgym_rl.rollout.agent_loop import AgentGymLoop

    rollout = {"prompt_length": 500, "response_length": 1000}
    data = {"agentgym": {"style": "compact", "retries": 0, **(rules or {})}, "agentgym_envs": envs}

    async def session():
        loop = AgentGymLoop(
            trainer_config=DictConfigWrap(OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})),
            server_manager=server,
            tokenizer=tokenizer,
            processor=None,
            dataset_cls=None,
            data_config=DictConfigWrap(OmegaConf.create(data)),
            hf_model_type="qwen2",
            recorder=recorder,
        )
        outputs = await loop.run(dict(VERLS_SAMPLING), **{"item_id": "counter_2", **row})
        return outputs[0] if len(outputs) == 1 else outputs

    return asyncio.run(session())


def episode_of(output):
    return Episode.from_dict(json.loads(json.dumps(output.extra_fields["episode"].to_dict())))


def test_a_solved_episode(tokenizer):
    server = server_for(tokenizer, *SOLUTION, global_steps=3)
    output = run(tokenizer, server, tags={"panel": "test"}, seed=11, global_steps=4, raw_prompt="unused")
    episode = episode_of(output)
    assert (episode.ending, episode.reward, episode.success) == (Ending.TERMINATED, 1.0, True)
    assert (episode.tags, episode.seed, episode.model_step) == ({"panel": "test"}, 11, 4)
    assert (output.num_turns, output.reward_score) == (3, 1.0)
    assert output.prompt_ids == server.requests[0].prompt
    last = server.requests[-1]
    assert output.prompt_ids + output.response_ids == last.prompt + last.output.token_ids
    assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (3, 3)
    assert output.extra_fields["reward_extra_info"] == {"acc": 1.0}

    fields = output.as_dict()
    assert fields["rm_scores"][-1] == 1.0 and fields["rm_scores"].sum() == 1.0
    assert fields["response_mask"][-1] == 1
    assert fields["response_mask"].sum() == sum(len(request.output.token_ids) for request in server.requests)
    sampled = fields["response_mask"] == 1
    assert (fields["rollout_log_probs"][sampled] < 0).all() and (fields["rollout_log_probs"][~sampled] == 0).all()


def seeds(tokenizer, **row):
    server = server_for(tokenizer, *SOLUTION)
    run(tokenizer, server, **row)
    return [request.sampling.get("seed") for request in server.requests]


def test_the_requests_of_a_stream_and_sample_have_seeds_of_their_own(tokenizer):
    drawn = seeds(tokenizer, stream="0:7:3")
    assert drawn == seeds(tokenizer, stream="0:7:3", sample=0, decoding="sampled")
    others = [*seeds(tokenizer, stream="0:7:3", sample=1), *seeds(tokenizer, stream="0:7:4")]
    assert len({*drawn, *others}) == 9 and all(0 <= seed < 2**63 for seed in drawn)
    assert seeds(tokenizer) == [None] * 3


def test_a_failed_episode_is_one_masked_token(tokenizer, monkeypatch):
    async def dead(self, action):
        raise EnvUnavailable("gone")

    monkeypatch.setattr(toy.Counter, "step", dead)
    output = run(tokenizer, server_for(tokenizer, *SOLUTION), rules={"retries": 1}, global_steps=4)
    assert output.extra_fields["episode"].ending == "env_error"
    assert (episode_of(output).attempts, episode_of(output).error) == (2, "EnvUnavailable: gone")
    assert (len(output.prompt_ids), len(output.response_ids)) == (1, 1)
    assert (output.response_mask, output.response_logprobs, output.reward_score) == ([0], [0.0], 0.0)
    assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (3, 3)
    assert output.as_dict()["rm_scores"].tolist() == [0.0]


def test_an_episode_without_a_response_is_one_masked_token(tokenizer):
    """verl puts the reward on the last token of a response; without any, the whole group was lost."""
    prefix = Prefix(responses=[Replayed(ids=[5] * 1001)])
    output = run(tokenizer, server_for(tokenizer), prefix=prefix.to_dict())
    assert (episode_of(output).ending, episode_of(output).turns) == (Ending.CONTEXT_LIMIT, [])
    assert (output.response_ids, output.response_mask) == ([tokenizer.eos_token_id], [0])


@pytest.mark.parametrize(
    ("row", "sampling"),
    [
        ({}, VERLS_SAMPLING),
        ({"decoding": None}, VERLS_SAMPLING),
        ({"decoding": "greedy"}, {"temperature": 0.0, "top_p": 1.0, "top_k": -1}),
        ({"decoding": "greedy", "temperature": 0.4}, {"temperature": 0.0, "top_p": 1.0, "top_k": -1}),
        ({"decoding": "sampled"}, {"temperature": 1.0, "top_p": 1.0, "top_k": -1}),
        ({"decoding": "sampled", "temperature": 0.4}, {"temperature": 0.4, "top_p": 1.0, "top_k": -1}),
    ],
)
def test_decoding(tokenizer, row, sampling):
    server = server_for(tokenizer, *SOLUTION)
    run(tokenizer, server, rules={"max_new_tokens": 40}, **row)
    assert [request.sampling for request in server.requests] == [{**sampling, "max_tokens": 40, "logprobs": True}] * 3


def test_the_row_sets_the_horizon(tokenizer):
    output = run(tokenizer, server_for(tokenizer, *SOLUTION), rules={"max_turns": 1}, max_turns=np.int64(2))
    episode = episode_of(output)
    assert (episode.max_turns, len(episode.turns), episode.ending) == (2, 2, Ending.TURN_LIMIT)
    output = run(tokenizer, server_for(tokenizer, *SOLUTION), rules={"max_turns": 1}, max_turns=None)
    assert episode_of(output).max_turns == 1


def test_options_reach_the_world(tokenizer):
    run(tokenizer, server_for(tokenizer, *SOLUTION), envs={"counter": {"hurry": True}, "other": {"speed": 1}})


def test_a_part_of_an_environment_adds_its_own_options(tokenizer):
    envs, row = {"counter": {"most": 3, "ink": "lead"}}, {"item_id": "counter-1a2b_2", "part_of": "counter"}
    for ink, turns, success in (("red", 1, True), ("lead", 1, False)):
        output = run(tokenizer, server_for(tokenizer, *SOLUTION), envs=envs, options={"most": 1, "ink": ink}, **row)
        episode = episode_of(output)
        assert (episode.env, episode.item_id) == ("counter-1a2b", "counter-1a2b_2")
        assert (len(episode.turns), episode.success) == (turns, success)
    of_whole = run(
        tokenizer, server_for(tokenizer, *SOLUTION), envs={"counter": {"most": 3}}, part_of=None, options=None
    )
    assert len(episode_of(of_whole).turns) == 3


@pytest.mark.parametrize(
    ("mistake", "ending", "error"),
    [
        (
            {"envs": {"counter": {"speed": 1}}},
            Ending.ENV_ERROR,
            "counter has no option 'speed'; its options: style, hurry",
        ),
        ({"envs": {"counter": {"host": {"kind": "moon"}}}}, Ending.ROLLOUT_ERROR, "ValueError: .*moon"),
        ({"rules": {"turns": 4}}, Ending.ROLLOUT_ERROR, "ValueError: unknown rollout settings"),
        ({"item_id": "counter_99"}, Ending.ENV_ERROR, "TaskNotFound: counter_99 is outside"),
        ({"item_id": "nowhere_1"}, Ending.ENV_ERROR, "UnknownEnv: "),
        ({"decoding": "loud"}, Ending.ROLLOUT_ERROR, "KeyError: 'loud'"),
    ],
)
def test_a_mistake_is_an_episode_with_an_error(tokenizer, mistake, ending, error):
    output = run(tokenizer, server_for(tokenizer, *SOLUTION), tags={"panel": "test"}, **mistake)
    episode = episode_of(output)
    assert (episode.ending, episode.tags, output.response_mask) == (ending, {"panel": "test"}, [0])
    assert re.search(error, episode.error)


def test_a_branch_replays_and_avoids(tokenizer):
    first = server_for(tokenizer, "Action: say 1", "Action: say 9")
    failed = run(tokenizer, first, global_steps=2)
    ids = first.requests[0].output.token_ids
    replayed = Replayed(ids=ids, log_prob=-0.5, step=2)
    prefix = Prefix(responses=[replayed], learn=True, avoid=["say 9"], resamples=1).to_dict()
    server = server_for(tokenizer, "Action: say 9", *SOLUTION[1:], global_steps=3)
    output = run(tokenizer, server, prefix=prefix, tags={"branch": 7}, global_steps=3)
    episode = episode_of(output)
    assert (episode.success, episode.tags, episode.prefix_turns, episode.calls) == (True, {"branch": 7}, 1, 3)
    assert episode.turns[0].log_prob == -0.5
    assert server.requests[0].prompt == first.requests[1].prompt
    shared = len(first.requests[1].prompt) - len(output.prompt_ids)
    assert output.response_ids[:shared] == failed.response_ids[:shared]
    assert output.response_mask[:shared] == failed.response_mask[:shared]
    assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (2, 3)


@pytest.mark.parametrize("dies", [False, True])
def test_the_server_of_an_episode_is_left_when_it_is_over(tokenizer, monkeypatch, dies):
    """Whatever its end, and retries keep the server."""
    from agentgym_rl.rollout.client import EpisodeClient

    class Client(FakeServer, EpisodeClient):
        def leave(self, request_id):
            self.left = [*getattr(self, "left", []), request_id]

    async def dead(self, action):
        raise EnvUnavailable("gone") if dies else KeyError("a bug")

    monkeypatch.setattr(toy.Counter, "step", dead)
    server = Client([[*tokenizer.encode(SOLUTION[0]), tokenizer.eos_token_id]])
    run(tokenizer, server, rules={"retries": 2})
    assert len(server.requests) == 3
    assert set(server.left) == {request.id for request in server.requests} and len(server.left) == 1


def test_a_recorder_keeps_the_text_of_tokens_from_the_queue(tokenizer, tmp_path):
    from agentgym_rl.data import episode_store
    from agentgym_rl.rollout.recorder import EpisodeRecorder, key_of

    in_memory = episode_of(run(tokenizer, server_for(tokenizer, *SOLUTION)))
    recorder = EpisodeRecorder()
    carried = episode_of(run(tokenizer, server_for(tokenizer, *SOLUTION), recorder=recorder))
    assert all(turn.pieces and turn.log_probs for turn in in_memory.turns)
    assert not any(turn.pieces or turn.log_probs for turn in carried.turns)
    assert [turn.log_prob for turn in carried.turns] == [turn.log_prob for turn in in_memory.turns]
    assert recorder.write(tmp_path / "step1.0.parquet", {key_of(carried): []}) == [key_of(carried)]
    (stored,) = episode_store.read(tmp_path / "step1.parquet")
    assert [turn.pieces for turn in stored.turns] == [turn.pieces for turn in in_memory.turns]
    assert [turn.log_probs for turn in stored.turns] == [turn.log_probs for turn in in_memory.turns]


HARNESS = """
import json, os
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

def post(url, body):
    head = {"Authorization": "Bearer " + os.environ["AGENTGYM_KEY"]}
    with build_opener(ProxyHandler({})).open(Request(url, json.dumps(body).encode(), head)) as told:
        return json.load(told)

def ask(*messages):
    body = {"messages": [{"role": "user", "content": text} for text in messages]}
    return post(os.environ["AGENTGYM_BASE_URL"] + "/chat/completions", body)["choices"][0]["message"]["content"]

task, code = json.loads(os.environ["AGENTGYM_TASK"]), None
ask(task["goal"])
ask("another conversation", task.get("preface", ""))
try:
    ask("a third")
except HTTPError as error:
    code = json.load(error)["error"]["code"]
post(os.environ["AGENTGYM_REWARD_URL"], {"reward": 0.25 + 0.5 * (code == "turn_limit")})
"""


@pytest.fixture
def played_by(tmp_path):
    """The settings of an environment whose episodes a harness plays."""
    pytest.importorskip("fcntl", reason="POSIX only")
    file = tmp_path / "agent.py"
    file.write_text(HARNESS)
    return {"counter": {"harness": {"command": ["python", str(file)]}}}


def test_a_harness_plays_and_its_conversations_are_segments(tokenizer, played_by):
    server = server_for(tokenizer, *SOLUTION, global_steps=3)
    outputs = run(tokenizer, server, envs=played_by, max_turns=2, tags={"panel": "test"}, stream="0:1", preface="Hint.")
    episode = episode_of(outputs[-1])
    assert outputs[0].extra_fields["episode"] is None and len(outputs) == len(server.requests) == 2
    assert (episode.ending, episode.reward, episode.tags) == (Ending.TERMINATED, 0.75, {"panel": "test"})
    assert (episode.max_turns, [turn.segment for turn in episode.turns]) == (2, [0, 1])
    assert episode.turns[0].observation == "another conversation\n\nHint."
    assert len({request.sampling["seed"] for request in server.requests}) == 2
    for output, request in zip(outputs, server.requests, strict=True):
        assert output.prompt_ids + output.response_ids == request.prompt + request.output.token_ids
        learned = [token for token, mask in zip(output.response_ids, output.response_mask, strict=True) if mask]
        assert learned == request.output.token_ids
        assert output.response_logprobs[-len(learned) :] == request.output.log_probs
        assert (output.reward_score, output.extra_fields["max_global_steps"]) == (0.75, 3)


def test_a_harness_without_a_model_is_one_masked_token(tokenizer, played_by):
    output = run(tokenizer, server_for(tokenizer, *SOLUTION, stop_reason="aborted"), envs=played_by)
    assert not episode_of(output).ending.counts and output.response_mask == [0]


def test_wrong_settings_of_a_harness_are_an_episode_that_does_not_count(tokenizer):
    output = run(tokenizer, server_for(tokenizer, *SOLUTION), envs={"counter": {"harness": {"comand": "python"}}})
    assert "harness has no setting comand" in episode_of(output).error and output.response_mask == [0]
