"""SearchQA as an agent meets it: searches, answers, endings, rewards, action formats."""

import asyncio
import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sessions import play
from sweep import swept

from agentgym_rl.envs import Task, make
from agentgym_rl.envs.actions import Action, ActionFormat
from agentgym_rl.envs.core import ProtocolError, Style, TaskNotFound
from agentgym_rl.envs.formats import reader, write
from agentgym_rl.envs.searchqa import SearchQA, exact_match, f1, tags, wording
from agentgym_rl.envs.searchqa.bm25 import Passage
from agentgym_rl.envs.searchqa.tags import Request
from agentgym_rl.envs.searchqa.tasks import SPLITS

INDEX = 300_482
"""On which river does the capital of the country of the city of Malmok stand?"""
RIGHT = "<answer> River Henvirn </answer>"


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (
            "agentgym",
            [
                "Question: On which river does the capital of the country of the city of Malmok stand?",
                '<information>Doc 1(Title: "Malmok") Malmok is a city in the country of Boskiv. It was founded in '
                "941. Krinbi Moldolth was its first mayor. It has 59000 inhabitants. It stands on the River "
                'Krertild.\nDoc 2(Title: "Henvek Museum") The city of Malmok is home to the Henvek Museum. It opened '
                'in 1835. Kroske Lasbinth was its architect.\nDoc 3(Title: "The Winter of Mirtilth") The author of '
                "the novel The Winter of Mirtilth is Rilbi Trorkold. The city of Malmok is its setting. It was "
                "published in 1756.</information>",
                "<information>No passage was found.</information>",
                "That was no action. Put a query between <search> and </search>, or your final answer between "
                "<answer> and </answer>, and try again.",
                "Your answer is not correct. Please try again.",
                "Your answer is correct.",
            ],
        ),
        (
            "compact",
            [
                "On which river does the capital of the country of the city of Malmok stand?",
                "Malmok is a city in the country of Boskiv.\n"
                "The city of Malmok is home to the Henvek Museum.\n"
                "The Winter of Mirtilth: The city of Malmok is its setting.",
                "nothing found",
                "invalid",
                "wrong",
                "correct",
            ],
        ),
    ],
)
def test_transcript(style: Style, expected: list[str]) -> None:
    actions = ("<search> Malmok country </search>", "<search> the of </search>", "Henvirn", "<answer>Boskiv</answer>")
    first, steps = play(SearchQA(style), INDEX, *actions, RIGHT)
    assert [first.text, *(step.observation.text for step in steps)] == expected
    assert [step.reward for step in steps] == [0.0] * 4 + [1.0]
    assert [step.terminated for step in steps] == [False] * 4 + [True]
    assert [step.info["invalid"] for step in steps] == [False, False, True, False, False]
    assert steps[3].info == {"invalid": False, "em": 0.0, "f1": 0.0, "raw_reward": 0.0}
    assert steps[4].info == {"invalid": False, "em": 1.0, "f1": 1.0, "raw_reward": 1.0}


def test_a_wrong_answer_ends_the_episode_where_answers_are_final() -> None:
    _, steps = play(SearchQA(final=True), INDEX, "<answer> Boskiv </answer>", RIGHT)
    assert len(steps) == 1
    assert (steps[0].terminated, steps[0].reward) == (True, 0.0)
    assert steps[0].observation.text == "Your answer is not correct."


def test_f1_pays_what_an_answer_adds_to_the_best_before() -> None:
    answers = ["River", "River Mississippi Delta", "the long river henvirn!", "River Henvirn"]
    _, steps = play(SearchQA(reward="f1"), INDEX, *(f"<answer>{each}</answer>" for each in answers))
    assert [step.reward for step in steps] == pytest.approx([2 / 3, 0, 0.8 - 2 / 3, 0.2])
    assert [step.info["raw_reward"] for step in steps] == [0, 0, 0, 1]
    assert [step.terminated for step in steps] == [False, False, False, True]
    assert not SearchQA().spec.success(steps[0].reward)


@pytest.mark.parametrize("action", ["", "Henvirn", "<search>", "<search> </search>", "<answer>\n</answer>", "<think>"])
def test_what_asks_for_nothing_is_invalid(action: str) -> None:
    _, (step,) = play(SearchQA(), INDEX, action)
    assert step.info == {"invalid": True}
    assert not step.done and step.reward == 0


def test_topk_is_the_number_of_passages() -> None:
    for topk in (1, 10):
        _, (step,) = play(SearchQA(topk=topk), INDEX, "<search> city founded </search>")
        assert step.observation.text.count("Doc ") == topk


@pytest.mark.parametrize("actions", [[RIGHT], ["<answer>x</answer>", RIGHT]])
def test_step_out_of_order(actions: list[str]) -> None:
    env = make("searchqa")
    assert isinstance(env, SearchQA)
    with pytest.raises(ProtocolError):
        asyncio.run(env.step(RIGHT))
    assert play(env, INDEX, *actions)[1][-1].done
    with pytest.raises(ProtocolError):
        asyncio.run(env.step(RIGHT))
    play(env, INDEX, RIGHT)  # a reset opens it again


@pytest.mark.parametrize("index", [-1, 299_999, 315_000, 10**15])
def test_index_that_no_task_has(index: int) -> None:
    for ask in (SearchQA().goal, SearchQA().difficulty, SearchQA().oracle):
        with pytest.raises(TaskNotFound, match="valid are 300000 to 314999"):
            ask(Task("searchqa", index))


def test_official_index_without_official_questions_says_what_to_give() -> None:
    with pytest.raises(TaskNotFound, match=r"searchqa_12 is a task of AgentGym's: give the options questions=<folder"):
        SearchQA().goal(Task("searchqa", 12))


def test_task_of_another_environment() -> None:
    with pytest.raises(TaskNotFound, match="maze_0 is not a task of searchqa"):
        SearchQA().goal(Task("maze", 0))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"reward": "bleu"}, "reward 'bleu' is unknown"),
        ({"topk": 0}, "topk is 0; choose 1 to 10"),
        ({"questions": "here"}, "give corpus and index, or url"),
        ({"corpus": "here"}, "corpus and index belong together"),
        ({"url": "http://h/retrieve", "corpus": "here"}, "not both"),
        ({"url": "localhost:8000"}, "is not an address"),
        ({"url": "http://h", "timeout": 0}, "timeout is 0"),
        ({"timeout": 5}, "timeout=5 is for a search engine at url"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        make("searchqa", **options)


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("<think> hm </think>\n<search>  who\nrules </search>", Action("<search> who rules </search>", "hm")),
        ("<answer>a</answer> no, <answer>b c</answer>", Action("<answer> b c </answer>")),
        ("<search>a</search><answer>b</answer>", Action("<search> a </search>")),
        ("<answer>b</answer><search>a</search>", Action("<answer> b </answer>")),
        ("<think><search>a</search></think><answer>b</answer>", Action("<search> a </search>", "<search>a</search>")),
        ("<search> a <answer> b </answer>", Action("<answer> b </answer>")),
        ("Action: search a", Action("")),
        ("<think> unfinished", Action("")),
    ],
)
def test_reading_a_response(response: str, action: Action) -> None:
    assert tags.read(response) == action


SOUP = st.lists(st.sampled_from(["<search>", "</search>", "<answer>", "</answer>", "<think>", "a", " ", "\n"]))


@settings(max_examples=swept(300), deadline=None)
@given(SOUP.map("".join))
def test_the_first_whole_tag_decides_and_the_last_answer_counts(response: str) -> None:
    tag = re.search(r"<(search|answer)>(.*?)</\1>", response, re.DOTALL)
    parsed = tags.find(response)
    if tag is None:
        assert parsed is None
        return
    text = tag[2] if tag[1] == "search" else re.findall(r"<answer>(.*?)</answer>", response, re.DOTALL)[-1]
    assert parsed is not None
    assert (parsed.kind, parsed.text) == (tag[1], " ".join(text.split()))
    assert tags.find(str(parsed)) == parsed


def test_a_response_of_nothing_but_tags_is_read_in_linear_time() -> None:
    assert tags.find("<search>" * 300_000) is None
    assert tags.find("<answer>a</answer>" + "<answer>" * 300_000) == Request("answer", "a")


@pytest.mark.parametrize("action_format", ActionFormat)
@pytest.mark.parametrize("command", [RIGHT, '<search> what\'s "up" {in} Łódź? </search>'])
def test_commands_survive_every_format(action_format: ActionFormat, command: str) -> None:
    spec = SearchQA().spec
    read = reader(spec, action_format)(write(spec, action_format, command, "because"))
    assert replace(read, well_formed=None) == Action(command, "because")


@pytest.mark.parametrize(
    ("answer", "golden", "exact", "overlap"),
    [
        ("The  River-Kel!", ["riverkel"], True, 1.0),
        ("an apple", ["pear", "Apple"], True, 1.0),
        ("apple pie", ["apple"], False, 2 / 3),
        ("theatre", ["atre"], False, 0.0),
        ("pie apple", ["apple pie"], False, 1.0),
        ("", ["apple"], False, 0.0),
        ("A", ["A"], True, 1.0),
        ("apple", [], False, 0.0),
    ],
)
def test_scores(answer: str, golden: list[str], exact: bool, overlap: float) -> None:
    assert exact_match(answer, golden) == exact
    assert f1(answer, golden) == pytest.approx(overlap)


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3))
def test_scores_of_any_text(answer: str, golden: list[str]) -> None:
    assert 0 <= f1(answer, golden) <= 1
    assert exact_match(golden[0], golden)
    assert f1(answer, golden) == 1.0 or not exact_match(answer, golden)


@given(st.lists(st.tuples(st.text(max_size=300), st.text(max_size=5000)), max_size=10), st.text(max_size=50))
def test_observations_are_bounded(texts: list[tuple[str, str]], query: str) -> None:
    passages = [Passage(*each) for each in texts]
    for style in ("agentgym", "compact"):
        assert len(wording.information(passages, query, style)) <= 4_000


def test_long_passages_are_cut_and_the_fitting_sentence_is_shown() -> None:
    text = "It is old. " + "It has many towers. " * 200 + "The mayor is Ana Bel."
    passages = [Passage("Keld", text)] * 3
    long = wording.information(passages, "Keld mayor", "agentgym")
    assert len(long) < 3_800 and long.count(" ...") == 3
    assert wording.information(passages[:1], "Keld mayor", "compact") == "Keld: The mayor is Ana Bel."
    assert wording.information(passages[:1], "Keld", "compact") == "Keld: It is old."


PIECES = [
    "<search>", "</search>", "<answer>", "</answer>", "<think> so </think>", "Malmok", "city", "founded 941", "river",
    "River Henvirn", "", "\x00", "☃ 日本", "{}", "a" * 3000, "Action:", '{"query": "x"}', "<information>",
]  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("options", [{}, {"style": "compact", "reward": "f1"}, {"final": True, "topk": 10}])
def test_random_walks_raise_nothing_and_stay_within_bounds(options: dict[str, object]) -> None:
    rng = random.Random(0)
    env = make("searchqa", **options)
    indices = [index for split in SPLITS for index in SPLITS[split][:40]]

    async def walk(index: int) -> int:
        await env.reset(Task("searchqa", index))
        goal = env.oracle(Task("searchqa", index))
        total, steps = 0.0, 0
        for _ in range(30):
            action = rng.choice(goal) if rng.random() < 0.2 else " ".join(rng.choices(PIECES, k=rng.randrange(6)))
            step = await env.step(action)
            steps += 1
            total += step.reward
            assert 0 <= step.reward <= 1 and len(step.observation.text) <= 4_000
            if step.done:
                break
        assert 0 <= total <= 1 + 1e-9
        return steps

    async def walks() -> int:
        steps = 0
        while steps < swept(4_000):
            steps += await walk(rng.choice(indices))
        return steps

    assert asyncio.run(walks()) >= swept(4_000)
