"""Academia: the tools and the graphs. What all environments of tools share is in test_tooluse."""

from collections import Counter

import pytest
from tool_sessions import call, run_episode

from agentgym_rl.envs import Task
from agentgym_rl.envs.core import Style, TaskNotFound
from agentgym_rl.envs.tooluse import Refused
from agentgym_rl.envs.tooluse.academia import Academia
from agentgym_rl.envs.tooluse.academia.graphs import PAPERS, graphs
from agentgym_rl.envs.tooluse.academia.tools import FUNCTIONS, Library

ONE = "Towards Provable metric learning in protein folding"
TWO = "Towards Multimodal random forests in music transcription"
GOAL = f"How many citations do the papers '{ONE}' and '{TWO}' have together? Answer with a number."
ACTIONS = (
    call("paperNodeCheck", node=ONE),
    call("loadPaperNet"),
    call("paperNodeCheck", node=ONE),
    call("neighbourCheck", graph="AuthorNet", node=TWO),
    call("finish", answer=5),
)


@pytest.mark.parametrize(
    ("style", "first", "expected"),
    [
        (
            "agentgym",
            f"Now new trial starts.\nYou should perform actions to accomplish the goal: {GOAL}\nGive me one action.",
            [
                "Observation: ERROR | PaperNet is not loaded yet; call loadPaperNet first\nGive me one action.",
                "Observation: PaperNet is loaded.\nGive me one action.",
                "Observation: {'authors': ['Mads Dahl', 'Akira Wolff', 'Freya Okada'], 'year': 2000, 'venue': "
                "'Congress on Signal Processing', 'n_citation': 2, 'keywords': ['metric learning', 'protein folding', "
                "'diffusion models'], 'doc_type': 'Conference'}\nGive me one action.",
                "Observation: ERROR | AuthorNet is not loaded yet; call loadAuthorNet first\nGive me one action.",
                "Observation: 5\nGive me one action.",
            ],
        ),
        (
            "compact",
            GOAL,
            [
                "invalid: PaperNet is not loaded yet; call loadPaperNet first",
                "PaperNet is loaded.",
                "Mads Dahl; Akira Wolff; Freya Okada | 2000 | Congress on Signal Processing | 2 | "
                "metric learning; protein folding; diffusion models | Conference",
                "invalid: AuthorNet is not loaded yet; call loadAuthorNet first",
                "5",
            ],
        ),
    ],
)
def test_transcript(style: Style, first: str, expected: list[str]) -> None:
    goal, steps = run_episode(Academia(style), 1001, *ACTIONS)
    assert goal == first
    assert [step.observation.text for step in steps] == expected
    assert [step.reward for step in steps] == [0, 0, 0, 0, 1]
    assert [step.info["invalid"] for step in steps] == [True, False, False, True, False]


@pytest.fixture
def library() -> Library:
    loaded = Library()
    for name in ("loadPaperNet", "loadAuthorNet"):
        FUNCTIONS[name].run(loaded)
    return loaded


def test_nodes_and_edges_that_are_not_there(library: Library) -> None:
    paper = next(paper for paper in graphs().papers.values() if paper.references)
    with pytest.raises(Refused, match=r"no node of PaperNet is named 'x+'$"):
        FUNCTIONS["paperNodeCheck"].run(library, node="x" * 1000)
    with pytest.raises(Refused, match="no node of AuthorNet is named"):
        FUNCTIONS["authorEdgeCheck"].run(library, node1=paper.authors[0], node2="nobody")
    with pytest.raises(Refused, match="there is no edge between"):
        FUNCTIONS["authorEdgeCheck"].run(library, node1=paper.authors[0], node2=paper.authors[0])
    edge = {"node1": paper.title, "node2": paper.references[0]}
    assert FUNCTIONS["paperEdgeCheck"].run(library, **edge) == {"citing": paper.title, "cited": paper.references[0]}
    with pytest.raises(Refused, match="there is no edge from"):
        FUNCTIONS["paperEdgeCheck"].run(library, node1=paper.references[0], node2=paper.title)


def test_sessions_do_not_share_what_is_loaded(library: Library) -> None:
    with pytest.raises(Refused, match="AuthorNet is not loaded yet"):
        FUNCTIONS["authorNodeCheck"].run(Library(), node=graphs().papers[ONE].authors[0])
    assert FUNCTIONS["authorNodeCheck"].run(library, node="Mads Dahl")["name"] == "Mads Dahl"


def test_the_graphs_are_whole(library: Library) -> None:
    papers = graphs().papers
    assert len(papers) == PAPERS
    cited = Counter(title for paper in papers.values() for title in paper.references)
    for title, paper in papers.items():
        assert paper.title == title
        assert len(set(paper.authors)) == len(paper.authors) >= 1
        assert len(set(paper.references)) == len(paper.references) <= 7
        assert all(papers[other].year < paper.year for other in paper.references)
        assert paper.n_citation >= cited[title]
        for author in paper.authors:
            assert author in graphs().organizations
            for other in set(paper.authors) - {author}:
                assert title in graphs().together[author][other]
    for name, others in graphs().together.items():
        assert all(graphs().together[other][name] == titles for other, titles in others.items())
        assert len(str(FUNCTIONS["neighbourCheck"].run(library, graph="AuthorNet", node=name))) < 2000


def test_official_tasks_are_left_to_their_server() -> None:
    with pytest.raises(TaskNotFound, match=r"academia_19 is a task of AgentGym's.*host=remote"):
        Academia().goal(Task("academia", 19))
    with pytest.raises(TaskNotFound, match="academia has no task 20"):
        Academia().goal(Task("academia", 20))
