"""Questions about papers and authors."""

from agentgym_rl.envs.tooluse.academia.draft import AcademiaDraft
from agentgym_rl.envs.tooluse.academia.tools import AUTHOR_NET, PAPER_NET, Library
from agentgym_rl.envs.tooluse.problem import Problem, yes

BEST = (("n_citation", "has the most citations"), ("year", "was published last"))
"""Fields, and the words for their greatest value."""


def fact(draft: AcademiaDraft) -> Problem[Library]:
    """An attribute of a paper."""
    draft.load(PAPER_NET)
    paper = draft.paper()
    node = draft.node(paper.title)
    field = draft.rng.choice(["year", "venue", "n_citation", "authors", "keywords"])
    return draft.ask(field, node[field], paper=paper)


def author_fact(draft: AcademiaDraft) -> Problem[Library]:
    """The organization or the collaborators of an author."""
    draft.load(AUTHOR_NET)
    name = draft.author()
    kind = draft.rng.randrange(3)
    if kind == 0:
        return draft.ask("organization", draft.organization(name), who=name)
    collaborators = draft.collaborators(name)
    if kind == 1 or not collaborators:
        return draft.ask("collaborators_count", len(collaborators), who=name)
    return draft.ask("collaborators", collaborators, who=name)


def references(draft: AcademiaDraft) -> Problem[Library]:
    """The papers that a paper cites, their number, or whether a certain one is among them."""
    draft.load(PAPER_NET)
    paper, other = draft.papers(2)
    cited = draft.require(draft.cited(paper.title))
    kind = draft.rng.randrange(3)
    if kind == 0:
        return draft.ask("references_count", len(cited), paper=paper)
    if kind == 1:
        return draft.ask("references", cited, paper=paper)
    title = draft.rng.choice([*cited, *[other.title] * len(cited)])
    return draft.ask("has_reference", yes(title in cited), paper=paper, title=title)


def joint_papers(draft: AcademiaDraft) -> Problem[Library]:
    """The papers that two authors wrote together, or their number."""
    draft.load(AUTHOR_NET)
    pair = draft.pair()
    papers = draft.common(*pair)
    if draft.rng.random() < 0.5:
        return draft.ask("joint_count", len(papers), pair=pair)
    return draft.ask("joint_papers", papers, pair=pair)


def two_papers(draft: AcademiaDraft) -> Problem[Library]:
    """A comparison of two papers."""
    draft.load(PAPER_NET)
    first, second = both = draft.papers(2)
    first_paper, second_paper = (draft.node(paper.title) for paper in both)
    kind = draft.rng.randrange(5)
    if kind == 0:
        answer = draft.only(both, [first_paper["year"], second_paper["year"]], min)
        return draft.ask("older_paper", answer.title, first=first, second=second)
    if kind == 1:
        answer = draft.only(both, [first_paper["n_citation"], second_paper["n_citation"]])
        return draft.ask("more_citations", answer.title, first=first, second=second)
    if kind == 2:
        total = first_paper["n_citation"] + second_paper["n_citation"]
        return draft.ask("citations_together", total, first=first, second=second)
    if kind == 3:
        conference = first_paper["doc_type"] == second_paper["doc_type"] == "Conference"
        return draft.ask("both_conference", yes(conference), first=first, second=second)
    shared = {*first_paper["authors"]} & {*second_paper["authors"]}
    draft.require(shared or draft.rng.random() >= 0.995)  # nearly all pairs are strangers
    return draft.ask("common_author", yes(bool(shared)), first=first, second=second)


def most_cited(draft: AcademiaDraft) -> Problem[Library]:
    """Which of three papers is cited most, or the newest."""
    draft.load(PAPER_NET)
    papers = draft.papers(3)
    field, best = draft.rng.choice(BEST)
    values = [draft.node(paper.title)[field] for paper in papers]
    return draft.ask("best_of_three", draft.only(papers, values).title, best=best, papers=papers)


def common_collaborators(draft: AcademiaDraft) -> Problem[Library]:
    """The common collaborators of two authors, or their number."""
    draft.load(AUTHOR_NET)
    pair = draft.pair()
    first, second = (draft.collaborators(name) for name in pair)
    common = [name for name in first if name in second]
    if draft.rng.random() < 0.5:
        return draft.ask("common_count", len(common), pair=pair)
    return draft.ask("common_collaborators", draft.require(common), pair=pair)


def same_organization(draft: AcademiaDraft) -> Problem[Library]:
    """Whether two authors are in one organization."""
    draft.load(AUTHOR_NET)
    pair = draft.pair()
    first, second = (draft.organization(name) for name in pair)
    return draft.ask("same_organization", yes(first == second), pair=pair)


def first_author(draft: AcademiaDraft) -> Problem[Library]:
    """The organization of the first author of a paper, or the number of collaborators."""
    draft.load(PAPER_NET, AUTHOR_NET)
    paper = draft.paper()
    name = draft.node(paper.title)["authors"][0]
    who = f"the first author of the paper '{paper.title}'"
    if draft.rng.random() < 0.5:
        return draft.ask("organization", draft.organization(name), who=who)
    return draft.ask("collaborators_count", len(draft.collaborators(name)), who=who)


def joint_citations(draft: AcademiaDraft) -> Problem[Library]:
    """The citations of the common papers of two authors, or the paper that has most of them."""
    draft.load(PAPER_NET, AUTHOR_NET)
    pair = draft.pair()
    papers = draft.common(*pair)
    counts = [draft.node(title)["n_citation"] for title in papers]
    if draft.rng.random() < 0.5:
        return draft.ask("joint_citations", sum(counts), pair=pair)
    draft.require(len(papers) > 1)
    return draft.ask("best_joint", draft.only(papers, counts), pair=pair)


def best_reference(draft: AcademiaDraft) -> Problem[Library]:
    """Which of the papers a paper cites is cited most, or the newest."""
    draft.load(PAPER_NET)
    paper = draft.paper()
    cited = draft.cited(paper.title)
    nodes = [draft.node(title) for title in cited]
    draft.require(len(nodes) > 2)
    field, best = draft.rng.choice(BEST)
    answer = draft.only(cited, [node[field] for node in nodes])
    return draft.ask("best_reference", answer, paper=paper, best=best)


def colleagues(draft: AcademiaDraft) -> Problem[Library]:
    """The collaborators in an author's organization, or in others."""
    draft.load(AUTHOR_NET)
    name = draft.author()
    home = draft.organization(name)
    others = {each: draft.organization(each) for each in draft.collaborators(name)}
    same = draft.rng.random() < 0.5
    found = [each for each, organization in others.items() if (organization == home) == same]
    where = "the same organization as" if same else "another organization than"
    return draft.ask("colleagues", draft.require(found), name=name, where=where)


def closest(draft: AcademiaDraft) -> Problem[Library]:
    """The collaborator with whom an author wrote most papers."""
    draft.load(AUTHOR_NET)
    name = draft.author()
    others = draft.collaborators(name)
    draft.require(len(others) > 1)
    answer = draft.only(others, [len(draft.common(name, other)) for other in others])
    return draft.ask("closest", answer, name=name)


def organizations(draft: AcademiaDraft) -> Problem[Library]:
    """The organizations behind a paper."""
    draft.load(PAPER_NET, AUTHOR_NET)
    paper = draft.paper()
    names = list(dict.fromkeys(draft.organization(name) for name in draft.node(paper.title)["authors"]))
    if len(names) > 1 and draft.rng.random() < 0.6:
        return draft.ask("organizations", names, paper=paper)
    return draft.ask("organizations_count", len(names), paper=paper)
