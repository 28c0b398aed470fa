"""Our replay buffer on a scripted queue."""

from types import SimpleNamespace

import pytest

pytest.importorskip("verl")

import transfer_queue as tq
from omegaconf import OmegaConf
from tensordict import NonTensorData, NonTensorStack, TensorDict

from agentgym_rl.data.episode import Ending, Episode
from agentgym_rl.engine.verl import buffer as buffers
from agentgym_rl.engine.verl.agent_loops import EarlyManager
from agentgym_rl.engine.verl.buffer import EpisodeBuffer
from agentgym_rl.engine.verl.rows import NothingToLearn, pack


class Queue:
    """Prompts, each of two episodes; looks take as long as they are told to."""

    partition = "train"

    def __init__(self):
        self.tags, self.episodes, self.read, self.looks, self.look_s = {}, {}, [], 0, 0.0
        self.on_look, self.asked, self.listed = {}, [], []

    def submit(self, *uids):
        self.tags |= {uid: {"is_prompt": True, "status": "running", "global_steps": 1} for uid in uids}

    def finish(self, uid):
        self.tags[uid] = {**self.tags[uid], "status": "finished"}
        for session in range(2):
            episode = Episode(
                env="e", item_id=uid, ending=Ending.TERMINATED, reward=float(session), success=False, max_turns=9
            )
            self.tags[f"{uid}_{session}_0"], self.episodes[f"{uid}_{session}_0"] = {"status": "success"}, episode

    def look(self):
        self.looks += 1
        self.clock.now += self.look_s
        for uid in self.on_look.get(self.looks, []):
            self.finish(uid)

    def kv_list(self):
        if not self.asked or self.asked[-1] != self.looks:  # what follows a look finds the queue as it was then
            self.look()
        self.listed.append(self.looks)
        return {self.partition: {key: dict(tag) for key, tag in self.tags.items()}}

    def kv_retrieve_meta(self, keys, partition_id):
        assert partition_id == self.partition and all(self.tags[key]["is_prompt"] for key in keys if key in self.tags)
        self.look()
        self.asked.append(self.looks)
        return SimpleNamespace(custom_meta=[self.tags[key] for key in keys if key in self.tags])

    def kv_clear(self, keys, partition_id):
        for key in keys:
            self.tags.pop(key, None)

    def kv_batch_get(self, keys, partition_id, select_fields):
        assert select_fields == ["episodes"]
        self.read.append((self.looks, list(keys)))
        packed = [pack([self.episodes[f"{uid}_{session}_0"] for session in range(2)])["episodes"] for uid in keys]
        return TensorDict({"episodes": NonTensorStack(*packed)}, batch_size=len(keys))


@pytest.fixture
def queue(monkeypatch):
    queue = Queue()
    queue.clock = SimpleNamespace(now=0.0, pauses=[])
    for name in ("kv_list", "kv_clear", "kv_batch_get"):
        monkeypatch.setattr(tq, name, getattr(queue, name))
    monkeypatch.setattr(tq, "get_client", lambda: queue)
    monkeypatch.setattr(buffers.time, "process_time", lambda: queue.clock.now)
    monkeypatch.setattr(buffers.time, "sleep", queue.clock.pauses.append)
    return queue


def buffer():
    return EpisodeBuffer("sync", OmegaConf.create(), None, "wait", OmegaConf.create())


def test_episodes_are_read_while_others_run_and_each_once(queue):
    queue.submit("a", "b", "c")
    queue.on_look = {1: ["b"], 3: ["a"], 4: ["c"]}
    early = buffer()
    batch, _ = early.sample(1, "train", 3)
    assert queue.read == [(1, ["b"]), (3, ["a"]), (4, ["c"])]
    episodes = early.take_episodes()
    assert {key: episode.item_id for key, episode in episodes.items()} == {
        f"{uid}_{session}": uid for uid in "abc" for session in (0, 1)
    }
    assert sorted(batch.keys) == sorted(f"{key}_0" for key in episodes) and not early._early


def test_rows_are_listed_first_and_last_and_between_only_prompts_that_run_are_asked_for(queue):
    queue.submit("a", "b", "c")
    queue.on_look = {2: ["b"], 4: ["a"], 5: ["c"]}
    early = buffer()
    batch, _ = early.sample(1, "train", 3)
    assert (queue.listed, queue.asked) == ([1, 5], [2, 3, 4, 5])
    assert sorted(batch.keys) == sorted(f"{uid}_{session}_0" for uid in "abc" for session in (0, 1))


def test_of_tasks_that_are_done_those_asked_for_first_are_taken(queue):
    """Whatever order a set of them has."""
    uids = [f"{number:09d}" for number in range(20)]
    queue.submit(*uids)
    queue.on_look = {1: uids[::-1]}
    taken, part = [], buffer()
    for _ in range(4):
        batch, _ = part.sample(1, "train", 5)
        taken.append(sorted({key.partition("_")[0] for key in batch.keys}))
    assert taken == [uids[at : at + 5] for at in (0, 5, 10, 15)]


def test_prompts_that_start_between_two_batches_are_seen(queue):
    queue.submit("a")
    queue.on_look = {2: ["a"], 4: ["b"]}
    early = buffer()
    early.sample(1, "train", 1)
    queue.submit("b")
    batch, _ = early.sample(1, "train", 1)
    assert sorted(batch.keys) == ["b_0_0", "b_1_0"]


def test_where_a_prompt_is_gone_all_are_listed_again(queue):
    queue.submit("a", "b", "c")
    early = buffer()
    early._sync_metadata_from_transfer_queue()
    early._wait_for_next_poll("train", 0.0)
    del queue.tags["a"]
    queue.finish("b")
    early._sync_metadata_from_transfer_queue()
    assert (early.running_keys["train"], early.finished_keys["train"]) == ({"c"}, {"b"})
    assert sorted(early.partitions["train"]) == ["b_0_0", "b_1_0"]


def test_a_group_given_up_before_its_rows_were_listed_leaves_none(queue):
    queue.submit("a", "b")
    early = buffer()
    early._sync_metadata_from_transfer_queue()
    early._wait_for_next_poll("train", 0.0)
    queue.finish("a")
    early._sync_metadata_from_transfer_queue()
    assert early.finished_keys["train"] == {"a"} and not early.partitions["train"]
    early._clear_groups("train", {"a"})
    assert list(queue.tags) == ["b"]


def test_episodes_of_a_group_that_is_given_up_are_forgotten(queue):
    queue.submit("a", "b")
    queue.finish("a")
    early = buffer()
    early._sync_metadata_from_transfer_queue()
    early._wait_for_next_poll("train", 0.0)
    assert set(early._early) == {"a_0", "a_1"}
    early._clear_groups("train", {"a"})
    assert not early._early


@pytest.mark.parametrize(("look_s", "pause"), [(0.0, 0.02), (0.0001, 0.02), (0.001, 0.099), (0.2, 1.0)])
def test_the_pause_grows_with_the_time_that_a_look_takes(queue, look_s, pause):
    """So that looks take a hundredth of the time, however many prompts there are."""
    queue.look_s = look_s
    queue.submit("a", "b")
    queue.on_look = {1: ["a"], 3: ["b"]}
    buffer().sample(1, "train", 2)
    assert queue.clock.pauses == [0.02, pytest.approx(pause)], "the first look, which lists rows, is no measure"


def fail(queue, *sessions):
    for session in sessions:
        queue.episodes[f"{session}_0"].ending, queue.episodes[f"{session}_0"].error = Ending.ENV_ERROR, "gone"


def test_episodes_that_failed_leave_the_batch_and_are_told(queue):
    queue.submit("a")
    queue.finish("a")
    fail(queue, "a_1")
    early = buffer()
    batch, _ = early.sample(1, "train", 1)
    assert batch.keys == ["a_0_0"] and "a_1_0" not in queue.tags
    assert early.take_episodes().keys() == {"a_0", "a_1"}


@pytest.mark.parametrize("partition", ["train", "val"])
def test_a_training_batch_alone_must_have_an_episode_that_counts_unless_others_follow(queue, partition):
    queue.partition = partition
    queue.submit("a", "b")
    for uid in "ab":
        queue.finish(uid)
        fail(queue, f"{uid}_0", f"{uid}_1")
    early = buffer()
    with early.refilling():
        assert early.sample(1, partition, 1)[0].keys == []
    if partition == "val":
        assert early.sample(1, partition, 1)[0].keys == []
    else:
        with pytest.raises(
            NothingToLearn, match="all 2 episodes of this step failed outside the agent; the last: gone"
        ):
            early.sample(1, partition, 1)


class Worker:
    def __init__(self):
        self.got, self.generate_sequences = [], SimpleNamespace(remote=self.take)

    def take(self, batch):
        self.got.append(list(batch["uid"]))


def prompts(*uids):
    fields = {"uid": NonTensorStack(*map(NonTensorData, uids)), "global_steps": NonTensorData(1)}
    return TensorDict(fields, batch_size=len(uids))


def test_prompts_are_dealt_to_all_agent_loops_in_turn(monkeypatch):
    monkeypatch.setattr("agentgym_rl.engine.verl.agent_loops.ray.get", list)
    manager = object.__new__(EarlyManager)
    manager.agent_loop_workers, manager._dealt = [Worker() for _ in range(4)], 0
    manager.generate_sequences(prompts(*"abcdef"))  # verl's chunks would leave the fourth without any
    manager.generate_sequences(prompts("g"))
    manager.generate_sequences(prompts("h"))
    manager.generate_sequences(prompts("i"))
    assert [worker.got for worker in manager.agent_loop_workers] == [
        [["a", "e"], ["i"]], [["b", "f"]], [["c"], ["g"]], [["d"], ["h"]],
    ]  # fmt: skip
