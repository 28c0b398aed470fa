"""Drafts of questions about papers: the calls that load graphs and look up nodes and edges."""

from typing import Any

from agentgym_rl.envs.tooluse.academia.graphs import Paper, graphs
from agentgym_rl.envs.tooluse.academia.tools import AUTHOR_NET, FUNCTIONS, PAPER_NET, TEXTS, Library
from agentgym_rl.envs.tooluse.problem import Draft


class AcademiaDraft(Draft[Library]):
    """Random papers and authors, and the plan of calls so far."""

    texts = TEXTS
    functions = FUNCTIONS

    def start(self) -> Library:
        return Library()

    def load(self, *nets: str) -> None:
        """Load graphs."""
        for net in nets:
            self.call(f"load{net}")

    def paper(self) -> Paper:
        return self.papers(1)[0]

    def papers(self, number: int) -> list[Paper]:
        return self.rng.sample(tuple(graphs().papers.values()), number)

    def author(self) -> str:
        return self.rng.choice(self.paper().authors)

    def pair(self) -> list[str]:
        """Two authors of one paper."""
        authors = self.paper().authors
        self.require(len(authors) > 1)
        return self.rng.sample(authors, 2)

    def node(self, title: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("paperNodeCheck", node=title)
        return found

    def organization(self, name: str) -> str:
        return str(self.call("authorNodeCheck", node=name)["org"])

    def cited(self, title: str) -> list[str]:
        """Titles of the papers that a paper cites."""
        return list(self.call("neighbourCheck", graph=PAPER_NET, node=title))

    def collaborators(self, name: str) -> list[str]:
        return list(self.call("neighbourCheck", graph=AUTHOR_NET, node=name))

    def common(self, first: str, second: str) -> list[str]:
        """Titles of the papers that two authors wrote together."""
        return list(self.call("authorEdgeCheck", node1=first, node2=second)["collaborative_papers"])
