"""The tools: AgentGym's names, arguments and results."""

from dataclasses import dataclass, field
from typing import Any

from agentgym_rl.envs.texts import read_texts
from agentgym_rl.envs.tooluse.academia.graphs import Graphs, Paper, graphs
from agentgym_rl.envs.tooluse.tool import ECHO, Refused, ToolEnvTexts
from agentgym_rl.envs.tooluse.wording import values_only

PAPER_NET = "PaperNet"
AUTHOR_NET = "AuthorNet"


@dataclass(slots=True)
class Library:
    """The graphs, and which of them are loaded. Its methods are the tools."""

    graphs: Graphs = field(default_factory=graphs)
    loaded: set[str] = field(default_factory=set)

    def loadPaperNet(self) -> str:
        return self._load(PAPER_NET)

    def loadAuthorNet(self) -> str:
        return self._load(AUTHOR_NET)

    def neighbourCheck(self, graph: str, node: str) -> list[str]:
        if graph == PAPER_NET:
            return list(self._paper(node).references)
        return list(self.graphs.together[self._author(node)])

    def paperNodeCheck(self, node: str) -> dict[str, Any]:
        paper = self._paper(node)
        return {
            "authors": list(paper.authors),
            "year": paper.year,
            "venue": paper.venue,
            "n_citation": paper.n_citation,
            "keywords": list(paper.keywords),
            "doc_type": paper.doc_type,
        }

    def authorNodeCheck(self, node: str) -> dict[str, Any]:
        return {"name": self._author(node), "org": self.graphs.organizations[node]}

    def authorEdgeCheck(self, node1: str, node2: str) -> dict[str, Any]:
        common = self.graphs.together[self._author(node1)].get(self._author(node2))
        if common is None:
            raise Refused(f"there is no edge between {node1} and {node2}")
        return {"collaborative_papers": list(common)}

    def paperEdgeCheck(self, node1: str, node2: str) -> dict[str, Any]:
        if self._paper(node2).title not in self._paper(node1).references:
            raise Refused(f"there is no edge from {node1} to {node2}")
        return {"citing": node1, "cited": node2}

    def _load(self, net: str) -> str:
        self.loaded.add(net)
        return f"{net} is loaded."

    def _paper(self, node: str) -> Paper:
        self._need(PAPER_NET)
        if node not in self.graphs.papers:
            raise Refused(f"no node of PaperNet is named {node[:ECHO]!r}")
        return self.graphs.papers[node]

    def _author(self, node: str) -> str:
        self._need(AUTHOR_NET)
        if node not in self.graphs.organizations:
            raise Refused(f"no node of AuthorNet is named {node[:ECHO]!r}")
        return node

    def _need(self, net: str) -> None:
        if net not in self.loaded:
            raise Refused(f"{net} is not loaded yet; call load{net} first")


TEXTS = read_texts(__file__, ToolEnvTexts)

FUNCTIONS = TEXTS.functions(TEXTS.methods(Library), dict.fromkeys(TEXTS.tools, values_only))
