"""Wordle's tasks: frozen, solvable in six guesses, hidden words in one split each."""

from collections import Counter

import pytest

from agentgym_rl.envs import Task
from agentgym_rl.envs.wordle import Wordle
from agentgym_rl.envs.wordle.game import GUESSES, Game, marks, solve
from agentgym_rl.envs.wordle.tasks import SIZES, SPLITS, pool, puzzle, words


def few(split: str) -> range:
    return SPLITS[split][:: 23 if split.endswith("variants") else 1]


@pytest.mark.slow
def test_every_fifteenth_word_is_found_in_the_whole_vocabulary() -> None:
    assert all(len(solve(Game(word, words(), 0), words())) <= GUESSES for word in words()[::15])


def test_oracle_sees_nothing_but_the_marks() -> None:
    trails = {hidden: solve(Game(hidden, words(), 0), words()) for hidden in words()[:25]}
    for word in trails:
        for other in trails:
            for mine, its in zip(trails[word], trails[other], strict=False):
                assert mine == its
                if marks(mine, word) != marks(its, other):
                    break


def test_vocabulary() -> None:
    assert len(words()) == 1726
    assert list(words()) == sorted(set(words()))
    assert all(len(word) == 5 and word.isascii() and word.isalpha() and word.islower() for word in words())
    assert sorted(digit for digits in SPLITS.shares.values() for digit in digits) == list(range(10))
    assert sorted(word for split in SPLITS for word in pool(split)) == list(words())


def test_splits_do_not_share_an_index_or_a_hidden_or_listed_word() -> None:
    assert {split: len(SPLITS[split]) for split in SPLITS} == {
        "train": 400,
        "test": 100,
        "train_variants": 8000,
        "val_variants": 800,
        "test_variants": 800,
    }
    assert len({index for indices in SPLITS.values() for index in indices}) == sum(map(len, SPLITS.values()))
    assert min(SPLITS["train"]) == 10_000
    for split in SPLITS:
        words = set(pool(split))
        for index in few(split):
            task = puzzle(index)
            assert task.hidden in words
            assert not task.listed or words.issuperset(task.words)


@pytest.mark.parametrize("split", SPLITS)
def test_lists_have_their_size_and_the_hidden_word(split: str) -> None:
    env = Wordle()
    for index in few(split):
        task = puzzle(index)
        size = env.difficulty(Task("wordle", index)).removeprefix("words ")
        assert len(task.words) == (len(words()) if size == "all" else int(size))
        assert task.listed == (size != "all")
        assert task.hidden in task.words


def test_sizes_are_balanced_and_no_task_occurs_twice() -> None:
    env = Wordle()
    for split in ("train", "test"):
        counts = Counter(env.difficulty(Task("wordle", index)) for index in SPLITS[split])
        assert set(counts.values()) == {len(SPLITS[split]) // len(SIZES)}
        assert len({env.goal(Task("wordle", index)) for index in SPLITS[split]}) == len(SPLITS[split])


@pytest.mark.slow
def test_difficulty_is_graded_by_the_oracle() -> None:
    env = Wordle()
    guesses: dict[str, list[int]] = {}
    for index in SPLITS["train"]:
        task = Task("wordle", index)
        guesses.setdefault(env.difficulty(task), []).append(len(env.oracle(task)))
    means = {label: sum(counts) / len(counts) for label, counts in guesses.items()}
    assert means == pytest.approx({"words 10": 1.9, "words 40": 2.2, "words 160": 2.7, "words all": 3.4}, abs=0.05)
