"""The tools: AgentGym's names, arguments and results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agentgym_rl.envs.tooluse.academia.graphs import Graphs, Paper, graphs
from agentgym_rl.envs.tooluse.tool import ECHO, Function, Refused, ToolEnvTexts
from agentgym_rl.envs.tooluse.wording import values_only

PAPER_NET = "PaperNet"
AUTHOR_NET = "AuthorNet"


@dataclass(slots=True)
class Library:
    """The graphs, and which of them are loaded."""

    graphs: Graphs = field(default_factory=graphs)
    loaded: set[str] = field(default_factory=set)

    def paper(self, node: str) -> Paper:
        self._need(PAPER_NET)
        if node not in self.graphs.papers:
            raise Refused(f"no node of PaperNet is named {node[:ECHO]!r}")
        return self.graphs.papers[node]

    def author(self, node: str) -> str:
        self._need(AUTHOR_NET)
        if node not in self.graphs.organizations:
            raise Refused(f"no node of AuthorNet is named {node[:ECHO]!r}")
        return node

    def _need(self, net: str) -> None:
        if net not in self.loaded:
            raise Refused(f"{net} is not loaded yet; call load{net} first")


def _load(library: Library, net: str) -> str:
    library.loaded.add(net)
    return f"{net} is loaded."


def _neighbours(library: Library, graph: str, node: str) -> list[str]:
    if graph == PAPER_NET:
        return list(library.paper(node).references)
    return list(library.graphs.together[library.author(node)])


def _paper_node(library: Library, node: str) -> dict[str, Any]:
    paper = library.paper(node)
    return {
        "authors": list(paper.authors),
        "year": paper.year,
        "venue": paper.venue,
        "n_citation": paper.n_citation,
        "keywords": list(paper.keywords),
        "doc_type": paper.doc_type,
    }


def _author_node(library: Library, node: str) -> dict[str, Any]:
    return {"name": library.author(node), "org": library.graphs.organizations[node]}


def _author_edge(library: Library, node1: str, node2: str) -> dict[str, Any]:
    common = library.graphs.together[library.author(node1)].get(library.author(node2))
    if common is None:
        raise Refused(f"there is no edge between {node1} and {node2}")
    return {"collaborative_papers": list(common)}


def _paper_edge(library: Library, node1: str, node2: str) -> dict[str, Any]:
    if library.paper(node2).title not in library.paper(node1).references:
        raise Refused(f"there is no edge from {node1} to {node2}")
    return {"citing": node1, "cited": node2}


TEXTS = ToolEnvTexts.beside(__file__)

FUNCTIONS: dict[str, Function[Library]] = TEXTS.functions(
    {
        "loadPaperNet": lambda library: _load(library, PAPER_NET),
        "loadAuthorNet": lambda library: _load(library, AUTHOR_NET),
        "neighbourCheck": _neighbours,
        "paperNodeCheck": _paper_node,
        "authorNodeCheck": _author_node,
        "authorEdgeCheck": _author_edge,
        "paperEdgeCheck": _paper_edge,
    },
    dict.fromkeys(TEXTS.tools, values_only),
)
