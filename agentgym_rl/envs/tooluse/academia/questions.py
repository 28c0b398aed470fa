"""Questions about papers and authors."""

from __future__ import annotations

from collections import Counter
from random import Random

from agentgym_rl.envs.tooluse.academia.draft import (
    NAME,
    NAMES,
    NUMBER,
    ORGANIZATION,
    TITLE,
    TITLES,
    YES_NO,
    Drawn,
    Walk,
    yes,
)


def fact(rng: Random) -> Drawn:
    """An attribute of a paper."""
    walk = Walk(rng, papers=True)
    (paper,) = walk.papers(1)
    node = walk.node(paper.title)
    field, asked = rng.choice(
        [
            ("year", f"In which year was the paper '{paper.title}' published? {NUMBER}"),
            ("venue", f"At which venue was the paper '{paper.title}' published? Answer with the name of the venue."),
            ("n_citation", f"How many citations does the paper '{paper.title}' have? {NUMBER}"),
            ("authors", f"Who wrote the paper '{paper.title}'? {NAMES}"),
            ("keywords", f"What are the keywords of the paper '{paper.title}'? Answer with a list of keywords."),
        ]
    )
    return walk.ask(asked, node[field])


def author_fact(rng: Random) -> Drawn:
    """The organization or the collaborators of an author."""
    walk = Walk(rng, authors=True)
    name = walk.author()
    kind = rng.randrange(3)
    if kind == 0:
        return walk.ask(f"Which organization is {name} affiliated with? {ORGANIZATION}", walk.organization(name))
    found = walk.collaborators(name)
    if kind == 1 or not found:
        return walk.ask(f"How many collaborators does {name} have? {NUMBER}", len(found))
    return walk.ask(f"Who are the collaborators of {name}? {NAMES}", found)


def references(rng: Random) -> Drawn:
    """What a paper cites: how much, what, or whether a certain paper."""
    walk = Walk(rng, papers=True)
    paper, other = walk.papers(2)
    found = walk.cited(paper.title)
    if not found:
        return None
    kind = rng.randrange(3)
    if kind == 0:
        return walk.ask(f"How many papers does the paper '{paper.title}' cite? {NUMBER}", len(found))
    if kind == 1:
        return walk.ask(f"Which papers does the paper '{paper.title}' cite? {TITLES}", found)
    title = rng.choice([*found, *[other.title] * len(found)])
    return walk.ask(f"Does the paper '{paper.title}' cite the paper '{title}'? {YES_NO}", yes(title in found))


def joint_papers(rng: Random) -> Drawn:
    """What two authors wrote together."""
    walk = Walk(rng, authors=True)
    pair = walk.pair()
    if pair is None:
        return None
    found = walk.common(*pair)
    if rng.random() < 0.5:
        return walk.ask(f"How many papers did {pair[0]} and {pair[1]} write together? {NUMBER}", len(found))
    return walk.ask(f"Which papers did {pair[0]} and {pair[1]} write together? {TITLES}", found)


def two_papers(rng: Random) -> Drawn:
    """A comparison of two papers."""
    walk = Walk(rng, papers=True)
    first, second = walk.papers(2)
    one, two = walk.node(first.title), walk.node(second.title)
    both = f"'{first.title}' and '{second.title}'"
    kind = rng.randrange(5)
    if kind == 0:
        if one["year"] == two["year"]:
            return None
        goal = f"Which paper was published first, '{first.title}' or '{second.title}'? {TITLE}"
        return walk.ask(goal, min(first, second, key=lambda paper: paper.year).title)
    if kind == 1:
        if one["n_citation"] == two["n_citation"]:
            return None
        goal = f"Which paper has more citations, '{first.title}' or '{second.title}'? {TITLE}"
        return walk.ask(goal, max(first, second, key=lambda paper: paper.n_citation).title)
    if kind == 2:
        total = one["n_citation"] + two["n_citation"]
        return walk.ask(f"How many citations do the papers {both} have together? {NUMBER}", total)
    if kind == 3:
        answer = one["doc_type"] == two["doc_type"] == "Conference"
        return walk.ask(f"Are {both} both conference papers? {YES_NO}", yes(answer))
    shared = {*one["authors"]} & {*two["authors"]}
    if not shared and rng.random() < 0.995:  # nearly all pairs are strangers
        return None
    return walk.ask(f"Do the papers {both} have an author in common? {YES_NO}", yes(bool(shared)))


def most_cited(rng: Random) -> Drawn:
    """Which of three papers is cited most, or the newest."""
    walk = Walk(rng, papers=True)
    papers = walk.papers(3)
    field, asked = rng.choice((("n_citation", "has the most citations"), ("year", "was published last")))
    values = [walk.node(paper.title)[field] for paper in papers]
    if values.count(max(values)) > 1:
        return None
    titles = [f"'{paper.title}'" for paper in papers]
    goal = f"Which paper {asked}, {titles[0]}, {titles[1]} or {titles[2]}? {TITLE}"
    return walk.ask(goal, papers[values.index(max(values))].title)


def common_collaborators(rng: Random) -> Drawn:
    """With whom two authors both wrote."""
    walk = Walk(rng, authors=True)
    pair = walk.pair()
    if pair is None:
        return None
    first, second = (walk.collaborators(name) for name in pair)
    found = [name for name in first if name in second]
    if rng.random() < 0.5:
        goal = f"How many collaborators do {pair[0]} and {pair[1]} have in common? {NUMBER}"
        return walk.ask(goal, len(found))
    if not found:
        return None
    return walk.ask(f"Which collaborators do {pair[0]} and {pair[1]} have in common? {NAMES}", found)


def same_organization(rng: Random) -> Drawn:
    """Whether two authors are in one organization."""
    walk = Walk(rng, authors=True)
    pair = walk.pair()
    if pair is None:
        return None
    first, second = (walk.organization(name) for name in pair)
    goal = f"Are {pair[0]} and {pair[1]} affiliated with the same organization? {YES_NO}"
    return walk.ask(goal, yes(first == second))


def first_author(rng: Random) -> Drawn:
    """About the first author of a paper."""
    walk = Walk(rng, papers=True, authors=True)
    (paper,) = walk.papers(1)
    name = walk.node(paper.title)["authors"][0]
    who = f"the first author of the paper '{paper.title}'"
    if rng.random() < 0.5:
        return walk.ask(f"Which organization is {who} affiliated with? {ORGANIZATION}", walk.organization(name))
    return walk.ask(f"How many collaborators does {who} have? {NUMBER}", len(walk.collaborators(name)))


def joint_citations(rng: Random) -> Drawn:
    """How often papers of two authors are cited, or which of them most."""
    walk = Walk(rng, papers=True, authors=True)
    pair = walk.pair()
    if pair is None:
        return None
    found = walk.common(*pair)
    counts = [walk.node(title)["n_citation"] for title in found]
    if rng.random() < 0.5:
        goal = f"How many citations do the papers {pair[0]} and {pair[1]} wrote together have in all? {NUMBER}"
        return walk.ask(goal, sum(counts))
    if len(found) < 2 or counts.count(max(counts)) > 1:
        return None
    goal = f"Which paper that {pair[0]} and {pair[1]} wrote together has the most citations? {TITLE}"
    return walk.ask(goal, found[counts.index(max(counts))])


def best_reference(rng: Random) -> Drawn:
    """Which of the papers a paper cites is cited most, or the newest."""
    walk = Walk(rng, papers=True)
    (paper,) = walk.papers(1)
    found = walk.cited(paper.title)
    nodes = [walk.node(title) for title in found]
    if len(nodes) < 3:
        return None
    field, asked = rng.choice((("n_citation", "has the most citations"), ("year", "was published last")))
    values = [node[field] for node in nodes]
    if values.count(max(values)) > 1:
        return None
    goal = f"Which of the papers that '{paper.title}' cites {asked}? {TITLE}"
    return walk.ask(goal, found[values.index(max(values))])


def colleagues(rng: Random) -> Drawn:
    """Which collaborators are in an author's organization, or in others."""
    walk = Walk(rng, authors=True)
    name = walk.author()
    home = walk.organization(name)
    others = {each: walk.organization(each) for each in walk.collaborators(name)}
    same = rng.random() < 0.5
    found = [each for each, organization in others.items() if (organization == home) == same]
    if not found:
        return None
    where = "the same organization as" if same else "another organization than"
    return walk.ask(f"Which collaborators of {name} are affiliated with {where} {name}? {NAMES}", found)


def closest(rng: Random) -> Drawn:
    """With whom an author wrote most papers."""
    walk = Walk(rng, authors=True)
    name = walk.author()
    counts = Counter({each: len(walk.common(name, each)) for each in walk.collaborators(name)})
    ranked = counts.most_common(2)
    if len(ranked) < 2 or ranked[0][1] == ranked[1][1]:
        return None
    return walk.ask(f"With whom did {name} write the most papers together? {NAME}", ranked[0][0])


def organizations(rng: Random) -> Drawn:
    """The organizations behind a paper."""
    walk = Walk(rng, papers=True, authors=True)
    (paper,) = walk.papers(1)
    found = list(dict.fromkeys(walk.organization(name) for name in walk.node(paper.title)["authors"]))
    if len(found) > 1 and rng.random() < 0.6:
        goal = f"Which organizations are the authors of the paper '{paper.title}' affiliated with? Answer with a list."
        return walk.ask(goal, found)
    goal = f"How many different organizations are the authors of the paper '{paper.title}' affiliated with? {NUMBER}"
    return walk.ask(goal, len(found))
