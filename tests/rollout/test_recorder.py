"""The text of single tokens goes to the store, not through the queue."""

from copy import deepcopy

from viewer_like import episode

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.rollout.recorder import EpisodeRecorder, key_of, shard, store


def slim(full):
    assert all(turn.pieces for turn in full.turns)
    stripped = deepcopy(full)
    for turn in stripped.turns:
        turn.pieces, turn.log_probs = [], []
    return stripped


def test_what_is_carried_has_everything_else():
    full = episode(1)
    before = deepcopy(full)
    carried = EpisodeRecorder().record(full)
    assert carried == slim(full) and full == before
    assert key_of(carried) == key_of(full)


def test_an_episode_without_tokens_is_carried_whole(tmp_path):
    recorder, failed = EpisodeRecorder(), episode(1, turns=0)
    assert recorder.record(failed) is failed
    assert recorder.write(tmp_path / "a.parquet", {key_of(failed): []}) == [] and not list(tmp_path.iterdir())


def test_a_step_is_stored_by_all_processes_and_the_caller(tmp_path):
    workers = [EpisodeRecorder(), EpisodeRecorder()]
    full = [episode(number) for number in range(5)]
    carried = [workers[number % 2].record(episode) for number, episode in enumerate(full[:4])]
    lost = slim(full[4])  # its process is gone
    failed = episode(9, turns=0)
    later = workers[0].record(episode(6))

    def write_shards(path, keys):
        return [worker.write(shard(path, number), keys) for number, worker in enumerate(workers)]

    store(tmp_path, "step000001", [*carried, lost, failed], write_shards)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step000001.0.parquet", "step000001.1.parquet", "step000001.2.parquet",
    ]  # fmt: skip
    read_first = episode_store.read(tmp_path / "step000001.0.parquet")
    stored = episode_store.read(tmp_path / "step000001.parquet")
    assert sorted(stored, key=key_of) == sorted([*full[:4], lost, failed], key=key_of)
    assert stored[: len(read_first)] == read_first, "who read while the step was written finds them in their places"
    assert len(EpisodeStore(tmp_path).query()) == 6

    store(tmp_path, "step000002", [later], write_shards)
    assert episode_store.read(tmp_path / "step000002.parquet") == [episode(6)]


def test_a_repeated_step_replaces_what_an_earlier_attempt_stored(tmp_path):
    worker = EpisodeRecorder()
    write = lambda path, keys: [worker.write(shard(path, 3), keys)]  # noqa: E731
    store(tmp_path, "step1", [worker.record(episode(0)), episode(5, turns=0)], write)
    store(tmp_path, "step1", [worker.record(episode(1))], write)
    assert [path.name for path in tmp_path.iterdir()] == ["step1.3.parquet"]
    store(tmp_path, "step1", [episode(2)])
    assert [path.name for path in tmp_path.iterdir()] == ["step1.parquet"]


def test_episodes_that_no_step_asks_for_are_dropped_in_the_end(tmp_path):
    recorder = EpisodeRecorder(most=2)
    carried = [recorder.record(episode(number)) for number in range(3)]
    advantages = {key_of(episode): [] for episode in carried}
    assert recorder.write(tmp_path / "a.0.parquet", advantages) == [key_of(episode) for episode in carried[1:]]
    assert recorder.write(tmp_path / "b.0.parquet", advantages) == []


def test_advantages_that_are_known_later_are_stored_too(tmp_path):
    worker = EpisodeRecorder()
    first, second = worker.record(episode(0)), worker.record(episode(1))
    first.advantages = [0.5] * len(first.turns)
    store(tmp_path, "step1", [first, second], lambda path, asked: [worker.write(shard(path, 0), asked)])
    stored = episode_store.read(tmp_path / "step1.parquet")
    assert [episode.advantages for episode in stored] == [[0.5] * len(first.turns), []]
    stored[0].advantages = []
    assert stored == [episode(0), episode(1)]
