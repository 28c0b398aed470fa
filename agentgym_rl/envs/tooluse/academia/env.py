"""Academia: questions about papers and authors, answered by walks over two graphs."""

from __future__ import annotations

from agentgym_rl.envs.core import Style
from agentgym_rl.envs.tooluse.academia import questions
from agentgym_rl.envs.tooluse.academia.tools import FUNCTIONS, Library
from agentgym_rl.envs.tooluse.env import ToolWorld
from agentgym_rl.envs.tooluse.tasks import Drawn

TASKS: Drawn[Library] = Drawn(
    name="academia",
    levels={
        range(3, 4): (questions.fact, questions.author_fact, questions.references, questions.joint_papers),
        range(4, 6): (
            questions.two_papers,
            questions.common_collaborators,
            questions.first_author,
            questions.most_cited,
            questions.same_organization,
        ),
        range(6, 10): (
            questions.best_reference,
            questions.colleagues,
            questions.organizations,
            questions.joint_citations,
            questions.closest,
        ),
    },
    official=range(20),
    missing="their answers are in a graph that is not part of AgentGym's repository; play them on AgentGym's own "
    "server through host=remote",
)

ABOUT = "You answer a question about papers and their authors."

HINT = (
    "Load a graph before you look into it: PaperNet for papers and citations, AuthorNet for authors and their "
    "collaborations. Write titles and names exactly as they are given."
)

EXAMPLE = """\
Goal: In which year was the paper 'Lazy Hashing for bird songs' published? Answer with a number.
Thought: The year is in PaperNet, which has to be loaded.

Action: loadPaperNet with Action Input: {}
Observation: PaperNet is loaded.
Thought: Now I can look up the paper.

Action: paperNodeCheck with Action Input: {"node": "Lazy Hashing for bird songs"}
Observation: {'authors': ['Ann Lee', 'Tim Dow'], 'year': 2009, 'venue': 'Workshop on Sounds', 'n_citation': 4, \
'keywords': ['hashing'], 'doc_type': 'Conference'}
Thought: It was published in 2009.

Action: finish with Action Input: {"answer": 2009}
Observation: 2009"""


class Academia(ToolWorld[Library]):
    """The tools of AgentGym's academia world over graphs that are made up, with questions of our own.

    Args:
        style: wording of instruction and observations.
    """

    name = "academia"

    def __init__(self, style: Style = "agentgym") -> None:
        super().__init__(
            style,
            functions=FUNCTIONS,
            tasks=TASKS,
            about=ABOUT,
            hint=HINT,
            example=EXAMPLE,
            max_turns=15,
            licence="Apache-2.0; names of tools and shapes of results are facts of AgentGym",
        )
