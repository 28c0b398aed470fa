"""TextCraft: craft an item from base items by the recipes on show."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from agentgym_rl.envs.core import Achieved, Observation, Step, Style, Task, TextEnv
from agentgym_rl.envs.knobs import Knob
from agentgym_rl.envs.picture import Picture, Transcript
from agentgym_rl.envs.textcraft.catalogue import MAX_TURNS, catalogue, few, hold_out, variants
from agentgym_rl.envs.textcraft.commands import Craft, Get, ShowInventory, Unreadable, Workshop, crafted, parse_command
from agentgym_rl.envs.textcraft.drawing import draw
from agentgym_rl.envs.textcraft.plan import Plan, make_plan
from agentgym_rl.envs.textcraft.published import Published, published
from agentgym_rl.envs.textcraft.puzzle import MAX_DISTRACTORS, Goal, Puzzle, find_goal, make_puzzle
from agentgym_rl.envs.texts import EnvTexts, read_texts

TEXTS = read_texts(__file__, EnvTexts)
EXACT = "agentgym-exact"
PLANNING = "Your first reply has a thought: what each item is made of, and the commands as a plan."
_LONGEST_ECHO = 200


class TextCraft(TextEnv):
    """TextCraft (Prasad et al. 2024, ADaPT, arXiv:2311.05772) with AgentGym's commands and observations.

    Args:
        style: wording of instruction and observations.
        recipes: a folder of Minecraft's own recipe files, in place of the recipes of this package.
        goals: let the variant splits have this many training goals only, a fixed choice.
        max_depth: let the variant splits have goals of at most this depth only.
        distractors: show this many recipes that are not needed, 1 to 10; the style decides otherwise.
        held_out: take this many goals out of ``train`` and the variant splits, a fixed choice, as the split ``val``.
        thoughts: give the oracle's first action its plan as a thought, and ask for a plan in the style ``compact``.
        wording: ``agentgym-exact`` answers to the letter of AgentGym's server.
        tasks_of: a file of AgentTraj, whose ids have the goals and recipes of its conversations; with ``recipes``.

    Raises:
        FileNotFoundError: there is no file ``tasks_of``.
        ValueError: the folder is missing or holds no recipes, there are not as many goals, the options do not go
            together, or the file does not fit; see :func:`.published.published`.
    """

    name = "textcraft"
    knobs = (
        Knob("goals", (12, 24, 48, 96), nested=True),
        Knob("max_depth", (1, 2, 3, 4), nested=True),
        Knob("distractors", (1, 2, 4, 8)),
    )

    def __init__(
        self,
        style: Style = "agentgym",
        recipes: str | Path | None = None,
        goals: int | None = None,
        max_depth: int | None = None,
        held_out: int | None = None,
        thoughts: bool = False,
        wording: Literal["own", "agentgym-exact"] = "own",
        tasks_of: str | Path | None = None,
        distractors: int | None = None,
    ) -> None:
        super().__init__(style)
        if distractors is not None and not 1 <= distractors <= MAX_DISTRACTORS:
            raise ValueError(f"distractors={distractors} is not between 1 and {MAX_DISTRACTORS}")
        if distractors is not None and tasks_of is not None:
            raise ValueError("tasks_of gives the recipes on show; leave out distractors")
        if style != "agentgym" and (wording == EXACT or tasks_of is not None):
            raise ValueError(f"wording={EXACT} and tasks_of are for the style agentgym, not {style}")
        if tasks_of is not None and recipes is None:
            raise ValueError("tasks_of needs recipes=FOLDER: AgentGym's agentenv_textcraft/recipes")
        self._exact = wording == EXACT
        self._distractors = distractors
        self._thoughts = thoughts
        self._tasks = catalogue(recipes) if recipes is None or tasks_of is None else published(recipes, tasks_of)
        splits = dict(self._tasks.splits)
        if held_out is not None:
            splits |= hold_out(splits["train"], held_out)
        if any(option is not None for option in (goals, max_depth, held_out)):
            splits |= variants(few(self._tasks, splits["train"], goals, max_depth), self._tasks.stride)
        instructions = dict(TEXTS.instructions)
        if thoughts:
            instructions["compact"] += f" {PLANNING}"
        self._spec = TEXTS.spec(
            self.name,
            splits,
            instructions=instructions,
            max_turns=MAX_TURNS,
            licence=TEXTS.licence if recipes is None else "recipes from a folder of the user's",
            other_ids="" if tasks_of is not None else "other goals here; for AgentGym's give recipes and tasks_of",
        )
        self._workshop: Workshop
        self._item = ""
        self._missing = 0

    async def _reset(self, task: Task) -> Observation:
        index, puzzle = self._index(task), self._puzzle(task)
        self._workshop = Workshop(self._tasks.book)
        self._item, self._missing = puzzle.goal.item, puzzle.goal.amount or 1
        if isinstance(self._tasks, Published) and index in self._tasks.starts:
            before, goal, _ = self._tasks.starts[index].text.rpartition("Goal: ")
            return Observation(f"{before}{goal}{puzzle.goal}.")
        header = "Recipes:" if self.style == "compact" else "Crafting commands:"
        return Observation("\n".join([header, *puzzle.lines, "", f"Goal: {puzzle.goal}."]))

    async def _step(self, action: str) -> Step:
        text, valid = self._carry_out(self._spaced(action))
        solved = self._missing <= 0
        return Step(Observation(text), float(solved), terminated=solved, info={"invalid": not valid})

    def goal(self, task: Task) -> str:
        return str(self._goal(task))

    async def content(self, task: Task) -> str:
        return self._puzzle(task).content

    def difficulty(self, task: Task) -> str:
        return f"depth {self._tasks.book.depth(self._tasks.locate(self._index(task))[0])}"

    def revision(self, task: Task) -> int:
        """2 for variants, of which those that repeated another split's game are drawn again; with ``distractors`` ten
        times their number more."""
        return (2 if self._index(task) >= self._tasks.stride else 1) + 10 * (self._distractors or 0)

    def oracle(self, task: Task) -> list[str]:
        return list(self._plan(task).commands)

    def thoughts(self, task: Task) -> list[str]:
        """With the option ``thoughts`` the plan, before the first action."""
        if not self._thoughts:
            return []
        plan = self._plan(task)
        return [plan.thought, *[""] * (len(plan.commands) - 1)]

    def _plan(self, task: Task) -> Plan:
        goal, rng = find_goal(self._tasks, self._index(task))
        return make_plan(self._tasks.book, goal.item, goal.amount or 1, rng)

    def achieved(self, task: Task, commands: Sequence[str]) -> Achieved | None:
        """The deepest item that was crafted and is a goal of tasks, in any number; of several the first."""
        book, own_goal = self._tasks.book, str(find_goal(self._tasks, self._index(task))[0])
        made = crafted(book, [self._spaced(command) for command in commands])
        items = [item for item in made if item in self._tasks.goals and str(Goal(item, None)) != own_goal]
        if not items:
            return None
        item = max(items, key=book.depth)
        return Achieved(str(Goal(item, None)), made[item])

    @classmethod
    def pictures(cls, transcript: Transcript) -> list[Picture]:
        return draw(transcript)

    def _goal(self, task: Task) -> Goal:
        original, _ = find_goal(self._tasks, self._index(task))
        if not self._pursued:
            return original
        item = self._pursued.removeprefix("craft ")
        if item not in self._tasks.goals:
            raise self._no_such_goal(task)
        return Goal(item, None)

    def _puzzle(self, task: Task) -> Puzzle:
        goal = self._goal(task)
        puzzle = make_puzzle(self._tasks, self._index(task), self.style, self._distractors)
        return replace(puzzle, goal=goal)

    def _spaced(self, action: str) -> str:
        return action if self._exact else " ".join(action.split())

    def _carry_out(self, action: str) -> tuple[str, bool]:
        """The observation, and whether the action could be carried out."""
        match parse_command(action):
            case ShowInventory():
                return f"Inventory: {_listed(self._workshop.inventory, self.style)}", True
            case Get(stack):
                got = self._workshop.get(stack)
                return f"Got {stack}" if got else f"Could not find {self._cut(stack.name)}", got
            case Craft() as command:
                return self._craft(command)
            case Unreadable(str(ingredient)):
                return f"Wrong item format: {self._cut(ingredient)}", False
            case Unreadable():
                return f"Could not execute {self._cut(action)}", False

    def _craft(self, command: Craft) -> tuple[str, bool]:
        name = _identifier(self._cut(command.output), self.style)
        tag = self._exact and command.output in self._tasks.book.tags
        if not self._workshop.holds(command.inputs):
            return f"Could not find enough items to craft {None if tag else name}", False
        recipe = self._workshop.craft(command)
        if recipe is None:
            if self._exact:  # its server prints an object of its own
                kind = f"tag={name!r}, item_id=None" if tag else f"tag=None, item_id={name!r}"
                name = f"ItemTagWithCount(item_tag=ItemTag({kind}), count={command.amount})"
            return f"Could not find a valid recipe for {name}", False
        if recipe.output.name == self._item:
            self._missing -= recipe.output.amount
        return f"Crafted {recipe.output.amount} {_identifier(recipe.output.name, self.style)}", True

    def _cut(self, text: str) -> str:
        """What the agent wrote, cut to a readable length."""
        return text if self._exact or len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}..."


def _listed(held: Mapping[str, int], style: Style) -> str:
    if style == "compact":
        return ", ".join(f"{amount} {name}" for name, amount in held.items()) or "empty"
    return "".join(f"[{name}] ({amount}) " for name, amount in held.items()) or "You are not carrying anything."


def _identifier(name: str, style: Style) -> str:
    """An item as the observation names it: AgentGym's are Minecraft identifiers."""
    return name if style == "compact" else f"minecraft:{name.replace(' ', '_')}"
