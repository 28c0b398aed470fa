"""The facts of WebArena."""

from __future__ import annotations

from agentgym_rl.envs.actions import Action, InvalidAction
from agentgym_rl.envs.core import EnvSpec
from agentgym_rl.envs.served import ServedEnv

INSTRUCTION = """\
You carry out tasks on websites, through a browser. After each action you are shown the page as an accessibility tree, \
in which every element has a number, together with its address, the open tabs, what you are to do and what you did last.

Actions on the page:
click [number] clicks on an element
type [number] [text] [0 or 1] writes into a field, and presses Enter afterwards unless the last argument is 0
hover [number] points at an element
press [keys] presses a combination of keys, such as Ctrl+v
scroll [down] or scroll [up] moves the page

Tabs: new_tab opens one, tab_focus [index] changes to one, close_tab closes the present one.
Addresses: goto [url] opens one, go_back and go_forward move through the history.
stop [answer] ends the task; give the answer where one is asked for, and N/A where the task cannot be done.

Every argument stands in square brackets. The page http://homepage.com lists the sites you may visit. Think first, \
then give exactly one action inside triple backticks, like this: In summary, the next action I will perform is \
```click [12]```. Say nothing after stop."""

COMPACT = "Use a browser. Think, then one action in triple backticks, such as ```click [12]``` or ```stop [N/A]```."


def _write(command: str, thought: str) -> str:
    return f"{thought} In summary, the next action I will perform is ```{command}```".strip()


def _read(response: str) -> Action | InvalidAction:
    """The action inside the first pair of triple backticks."""
    if response.count("```") < 2:
        return InvalidAction("No action was found. Put exactly one inside triple backticks (```).")
    thought, command = response.split("```", 2)[:2]
    return Action(command.strip(), thought.strip())


SPEC = EnvSpec(
    name="webarena",
    instructions={"agentgym": INSTRUCTION, "compact": COMPACT},
    # The sizes are AgentGym's. Its own lists of tasks are files; such a file may be given wherever a split is.
    splits={"train": range(50, 422), "test": range(50)},
    max_turns=15,
    success_above=0.99,
    read=_read,
    write=_write,
    deterministic=False,
    replayable=False,
    licence="served by AgentGym's WebArena (MIT); sites of the user's server",
)


class WebArena(ServedEnv):
    """WebArena (Zhou et al. 2023, arXiv:2307.13854) on AgentGym's server."""

    name = "webarena"
    spec = SPEC
