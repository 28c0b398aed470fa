"""Everything the agent reads in a built-in game, in each style."""

from collections.abc import Iterable
from dataclasses import dataclass

from agentgym_rl.envs.alfworld.game import Goal, Name, openable
from agentgym_rl.envs.alfworld.house import NOTHING, Event, House
from agentgym_rl.envs.core import Style
from agentgym_rl.envs.texts import EnvTexts, read_texts
from agentgym_rl.envs.verl_agent import PromptTexts, TurnPrompt


@dataclass(frozen=True, kw_only=True)
class Texts(EnvTexts):
    """With ALFWorld's sentences for its types of tasks, and verl-agent's prompts."""

    sentences: dict[str, tuple[str, ...]]
    verl_agent: PromptTexts


TEXTS = read_texts(__file__, Texts)

GREETING = "-= Welcome to TextWorld, ALFRED! =-"
"""What ALFWorld begins with; AgentGym leaves it out."""
_TASK = "Your task is to: "
_AVAILABLE = "\nAVAILABLE ACTIONS: "


def _task(first: str) -> str:
    return _seen(first).partition(_TASK)[2].strip()


def _seen(text: str) -> str:
    """An observation without the actions that AgentGym's client adds, where it comes from its server."""
    return text.partition(_AVAILABLE)[0]


PROMPT = TurnPrompt(texts=TEXTS.verl_agent, task=_task, seen=_seen)
"""The prompts of the style ``verl_agent``."""

_MIDDLE = "You are in the middle of a room. Looking quickly around you, you see"
"""Followed by all receptacles at the start, and by nothing later, as in ALFWorld."""


def sentence(goal: Goal, style: Style = "agentgym") -> str:
    """The goal in words. The ``compact`` style has one sentence a type."""
    words = TEXTS.sentences[goal.type][0 if style == "compact" else goal.wording]
    return words.format(object=goal.object, receptacle=goal.receptacle)


def first(house: House, style: Style) -> str:
    """What is read before the first action."""
    goal = sentence(house.game.goal, style)
    if style == "compact":
        return f"{goal}: {_receptacles(house, style)}"
    seen, task = _receptacles(house, style), f"{_TASK}{goal}."
    if style == "verl_agent":
        return f"{GREETING}\n\n{seen}\n\n{task}"
    return with_actions(f"{seen}\n{task}", house.possible())


def with_actions(text: str, actions: Iterable[str]) -> str:
    """An observation and what can be done, as AgentGym's client writes it."""
    return f"{text}{_AVAILABLE}{','.join(actions)}"


def tell(event: Event, house: House, style: Style) -> str:
    """What is read after an action."""
    return _compact(event, house) if style == "compact" else _agentgym(event, house)


def _agentgym(event: Event, house: House) -> str:
    thing, receptacle = event.thing, event.receptacle
    match event.verb:
        case "open":
            return f"You open the {receptacle}. {_view(house, receptacle)}"
        case "close":
            return f"You close the {receptacle}."
        case "take":
            return f"You pick up the {thing} from the {receptacle}."
        case "put":
            return f"You put the {thing} in/on the {receptacle}."
        case "use":
            return f"You turn on the {thing}."
        case "clean" | "heat" | "cool":
            return f"You {event.verb} the {thing} using the {receptacle}."
        case "inventory":
            return "You are not carrying anything." if house.held is None else f"You are carrying: a {house.held}."
        case "look" if house.at is None:
            return f"{_MIDDLE} nothing."
        case "look":
            return f"You are facing the {house.at}. Next to it, you see nothing."
        case "examine" if thing is not None:
            return _examined(house, thing)
        case "go" | "examine":
            return _view(house, receptacle)
    return "Nothing happens."


def _compact(event: Event, house: House) -> str:
    thing, receptacle = event.thing, event.receptacle
    match event.verb:
        case "go" | "open" | "close" | "examine" if receptacle is not None:
            return _brief_view(house, receptacle)
        case "take" | "inventory":
            return f"you have {house.held or 'nothing'}"
        case "put":
            return f"{thing} in {receptacle}"
        case "clean" | "heat" | "cool" | "use" | "examine" if thing is not None:
            return " ".join([str(thing), *_marks(house, thing)])
        case "look":
            return "nothing" if house.at is None else _brief_view(house, house.at)
    return f"{NOTHING} happens"


def _receptacles(house: House, style: Style) -> str:
    if style == "compact":
        return ", ".join(map(str, house.game.receptacles))
    ordered = sorted(house.game.receptacles, key=lambda name: (name.type, -name.number))
    return f"{_MIDDLE} {_listed(ordered)}."


def _view(house: House, receptacle: Name | None) -> str:
    assert receptacle is not None, "only a receptacle is looked into"
    if not house.accessible(receptacle):
        return f"The {receptacle} is closed."
    inside = _listed(house.contents(receptacle))
    if openable(receptacle):
        return f"The {receptacle} is open. In it, you see {inside}."
    return f"On the {receptacle}, you see {inside}."


def _brief_view(house: House, receptacle: Name) -> str:
    if not house.accessible(receptacle):
        return f"{receptacle} closed"
    return f"{receptacle}: {', '.join(map(str, house.contents(receptacle))) or 'nothing'}"


def _listed(names: list[Name]) -> str:
    words = [f"a {name}" for name in names]
    if len(words) < 2:
        return "".join(words) or "nothing"
    return f"{', '.join(words[:-1])}, and {words[-1]}"


def _marks(house: House, thing: Name) -> list[str]:
    """What was done to a thing, in words."""
    if thing in house.lit:
        return ["on"]
    done = house.done.get(thing, set())
    return [word for verb, word in (("heat", "hot"), ("cool", "cool"), ("clean", "clean")) if verb in done]


def _examined(house: House, thing: Name) -> str:
    marks = _marks(house, thing)
    if not marks:
        return f"There's nothing special about {thing}."
    return f"This is a {'cold' if marks == ['cool'] else ' and '.join(marks)} {thing}."
