"""A question in the making: the calls that load graphs and look at nodes and edges."""

from __future__ import annotations

from random import Random
from typing import Any

from agentgym_rl.envs.tooluse.academia.graphs import Paper, graphs
from agentgym_rl.envs.tooluse.academia.tools import AUTHOR_NET, BY_TOOL, PAPER_NET, Library
from agentgym_rl.envs.tooluse.draft import Draft
from agentgym_rl.envs.tooluse.problem import Problem

Drawn = Problem[Library] | None

NUMBER = "Answer with a number."
YES_NO = "Answer Yes or No."
TITLE = "Answer with the title of the paper."
TITLES = "Answer with a list of titles."
NAME = "Answer with the name of the author."
NAMES = "Answer with a list of names."
ORGANIZATION = "Answer with the name of the organization."


class Walk:
    """Random papers and authors, and the plan of calls so far."""

    def __init__(self, rng: Random, papers: bool = False, authors: bool = False) -> None:
        self.rng = rng
        self.draft: Draft[Library] = Draft(BY_TOOL, Library)
        if papers:
            self.draft.call("loadPaperNet")
        if authors:
            self.draft.call("loadAuthorNet")

    def papers(self, number: int) -> list[Paper]:
        return self.rng.sample(tuple(graphs().papers.values()), number)

    def author(self) -> str:
        return self.rng.choice(self.papers(1)[0].authors)

    def pair(self) -> tuple[str, str] | None:
        """Two authors of one paper; None where it has one author."""
        authors = self.papers(1)[0].authors
        if len(authors) < 2:
            return None
        first, second = self.rng.sample(authors, 2)
        return first, second

    def node(self, title: str) -> dict[str, Any]:
        found: dict[str, Any] = self.draft.call("paperNodeCheck", node=title)
        return found

    def organization(self, name: str) -> str:
        return str(self.draft.call("authorNodeCheck", node=name)["org"])

    def cited(self, title: str) -> list[str]:
        """Titles of the papers a paper cites."""
        return list(self.draft.call("neighbourCheck", graph=PAPER_NET, node=title))

    def collaborators(self, name: str) -> list[str]:
        return list(self.draft.call("neighbourCheck", graph=AUTHOR_NET, node=name))

    def common(self, first: str, second: str) -> list[str]:
        """Titles of the papers two authors wrote together."""
        return list(self.draft.call("authorEdgeCheck", node1=first, node2=second)["collaborative_papers"])

    def ask(self, goal: str, answer: Any) -> Problem[Library]:
        return self.draft.ask(goal, answer)


def yes(answer: bool) -> str:
    return "Yes" if answer else "No"
