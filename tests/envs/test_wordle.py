"""Wordle as an agent meets it: marks, guesses, endings; AgentGym's own games."""

import asyncio
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import play
from sweep import swept

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.envs.core import OracleUnavailable, ProtocolError, Style, TaskNotFound
from agentgym_rl.envs.formats import reader, write
from agentgym_rl.envs.probe import GARBAGE
from agentgym_rl.envs.wordle import Wordle
from agentgym_rl.envs.wordle.game import GUESSES, marks
from agentgym_rl.envs.wordle.tasks import SPLITS, puzzle


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (
            "agentgym",
            [
                "A new game begins. The hidden word is one of these 10:\n"
                "align cheat daily entry glint plaid refer space vista warty",
                "b y y b b",
                "invalid word",
                "b g g y y",
                "g g g g g",
            ],
        ),
        (
            "compact",
            [
                "a l i g n, c h e a t, d a i l y, e n t r y, g l i n t, p l a i d, r e f e r, s p a c e, v i s t a, "
                "w a r t y",
                "b y y b b",
                "invalid",
                "b g g y y",
                "g g g g g",
            ],
        ),
    ],
)
def test_transcript(style: Style, expected: list[str]) -> None:
    first, steps = play(Wordle(style), 10_000, "e n t r y", "t r a i n", "align", "g l i n t")
    assert [first.text, *(step.observation.text for step in steps)] == expected
    assert [step.reward for step in steps] == [0.0, 0.0, 0.0, 1.0]
    assert [step.terminated for step in steps] == [False, False, False, True]
    assert [step.info["invalid"] for step in steps] == [False, True, False, False]
    assert [step.info["raw_reward"] for step in steps] == [-1.0, -1.0, -1.0, 0.0]


@pytest.mark.parametrize(("style", "text"), [("agentgym", "common English words."), ("compact", "any word")])
def test_whole_vocabulary_is_not_listed(style: Style, text: str) -> None:
    first, (step, *_) = play(Wordle(style), 10_003, "s t a r e")
    assert first.text.endswith(text)
    assert not step.info["invalid"]


@pytest.mark.parametrize(
    ("guess", "hidden", "expected"),
    [
        ("crane", "crane", "ggggg"),
        ("shire", "crane", "bbbyg"),
        ("eerie", "crane", "yyybg"),  # a letter is marked as often as it is guessed
        ("level", "eagle", "yybyy"),
        ("mummy", "crane", "bbbbb"),
    ],
)
def test_marks(guess: str, hidden: str, expected: str) -> None:
    assert marks(guess, hidden) == expected


@pytest.mark.parametrize("guess", ["GLINT", " g l i n t ", "G L I N T", "gl int"])
def test_case_and_spaces_do_not_matter(guess: str) -> None:
    assert play(Wordle(), 10_000, guess)[1][-1].reward == 1.0


@pytest.mark.parametrize("guess", ["", "glin", "glints", "g, l, i, n, t", "train", "guess glint"])
def test_what_is_no_word_of_the_game_is_invalid_and_counts(guess: str) -> None:
    _, steps = play(Wordle(), 10_000, *[guess] * (GUESSES + 2))
    assert [step.observation.text for step in steps] == ["invalid word"] * GUESSES
    assert all(step.info["invalid"] for step in steps)
    assert [step.terminated for step in steps] == [False] * (GUESSES - 1) + [True]


def test_sixth_miss_ends_the_episode_without_reward() -> None:
    _, steps = play(Wordle(), 10_000, *["align"] * 9)
    assert len(steps) == GUESSES
    assert (steps[-1].terminated, steps[-1].truncated, steps[-1].reward) == (True, False, 0.0)


def test_solved_with_the_sixth_guess() -> None:
    _, steps = play(Wordle(), 10_000, *["align"] * 5, "glint")
    assert (steps[-1].terminated, steps[-1].reward) == (True, 1.0)


@pytest.mark.parametrize("actions", [["glint"], ["align"] * GUESSES])
def test_step_out_of_order(actions: list[str]) -> None:
    env = make("wordle")
    assert isinstance(env, Wordle)
    with pytest.raises(ProtocolError):
        asyncio.run(env.step("align"))
    assert play(env, 10_000, *actions)[1][-1].done
    with pytest.raises(ProtocolError):
        asyncio.run(env.step("align"))
    play(env, 10_000, "align")  # a reset opens it again


@pytest.mark.parametrize("index", [SPLITS["test_variants"].stop, 10**15, -1])
def test_index_outside_the_world(index: int) -> None:
    for ask in (Wordle().goal, Wordle().difficulty, Wordle().oracle):
        with pytest.raises(TaskNotFound, match=r"valid are 10000 to 20099"):
            ask(Task("wordle", index))


@pytest.mark.parametrize("word", ["glint", "g l i n t"])
def test_guess_is_a_function(word: str) -> None:
    env = Wordle()
    for action_format in ActionFormat:
        parsed = reader(env.spec, action_format)(write(env.spec, action_format, word))
        assert parsed.command == word  # type: ignore[union-attr]


TASKS = st.integers(SPLITS["train"].start, SPLITS["test_variants"][-1])


@settings(max_examples=swept(150), deadline=None)
@given(TASKS, st.randoms(use_true_random=False))
def test_a_walk_is_marked_by_the_hidden_word_and_can_be_replayed(index: int, rng: Random) -> None:
    task = puzzle(index)
    assert task.hidden is not None
    actions = [rng.choice([rng.choice(task.words), task.hidden, rng.choice(GARBAGE)]) for _ in range(GUESSES + 3)]
    env = Wordle()
    first, steps = play(env, index, *actions)
    assert play(env, index, *actions) == (first, steps)
    _, short = play(Wordle("compact"), index, *actions)
    assert [(step.reward, step.done, step.info) for step in steps] == [(s.reward, s.done, s.info) for s in short]
    assert sum(step.reward for step in steps) == float(task.hidden in actions[: len(steps)])
    assert len(first.text) < 4000
    for action, step in zip(actions, steps, strict=False):
        assert len(step.observation.text) < 20
        assert step.info["invalid"] == (action not in task.words)
        if action in task.words:
            assert step.observation.text.replace(" ", "") == marks(action, task.hidden)


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    """A file in the form of LMRL-Gym's, with a line to pass over."""
    path = tmp_path / "words.txt"
    path.write_text("panic\nsolar\nshire\nproxy\npoint\nrobot\nprick\nthe\nwince\ncrimp\nknoll\n")
    return path


def test_agentgyms_games_draw_the_word_anew(vocabulary: Path) -> None:
    words = [word for word in vocabulary.read_text().split() if len(word) == 5]
    env = Wordle(vocabulary=vocabulary)
    assert env.words == tuple(words)
    for seed in range(20):
        rng, possible, expected = Random(seed), words, []
        for guess in ("solar", "panic", "proxy"):
            hidden = rng.choice(possible)
            expected.append(" ".join(marks(guess, hidden)))
            if hidden == guess:
                break
            possible = [word for word in possible if marks(guess, word) == marks(guess, hidden)]
        first, steps = play(env, seed, "solar", "panic", "proxy")
        assert [step.observation.text for step in steps] == expected
        assert first.text.endswith(f"one of these {len(words)}:\n{' '.join(words)}")


def test_agentgyms_games_have_an_oracle(vocabulary: Path) -> None:
    env = Wordle(vocabulary=vocabulary)
    assert env.difficulty(Task("wordle", 0)) == "words 10"
    assert env.goal(Task("wordle", 7)).startswith("find the word of seed 7 among 10 words")
    assert set(env.spec.splits) == {"train", "test"}
    for seed in range(60):
        _, steps = play(env, seed, *env.oracle(Task("wordle", seed)))
        assert steps[-1].reward == 1.0


def test_words_too_much_alike_have_no_oracle(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("\n".join(f"{letter}ight" for letter in "aefhlmnrstw"))
    env, needed = Wordle(vocabulary=path), set()
    for seed in range(20):
        try:
            guesses = env.oracle(Task("wordle", seed))
        except OracleUnavailable as error:
            needed.add(str(error))
        else:
            assert play(env, seed, *guesses)[1][-1].reward == 1.0
    assert any("guesses, and a game has 6" in each for each in needed)


def test_agentgyms_games_need_their_vocabulary(vocabulary: Path) -> None:
    with pytest.raises(TaskNotFound, match=r"vocabulary=<path of LMRL-Gym's tweet_words\.txt>"):
        play(Wordle(), 12)
    with pytest.raises(TaskNotFound, match="no task 10000: valid are 0 to 9999"):
        play(Wordle(vocabulary=vocabulary), 10_000)


@pytest.mark.parametrize(
    ("text", "message"), [("no\nwords\nHERE5\n", "line 3: 'HERE5' is no word"), ("no\nword\n", "no word of 5 letters")]
)
def test_bad_vocabulary(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Wordle(vocabulary=path)
    with pytest.raises(FileNotFoundError, match=r"none\.txt does not exist"):
        Wordle(vocabulary=tmp_path / "none.txt")
