"""BabyAI: grid rooms, a mission in words, and commands that walk, carry and open doors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agentgym_rl.envs.babyai.commands import CHECK, OWN, normalize, options
from agentgym_rl.envs.babyai.drawing import draw
from agentgym_rl.envs.babyai.exact import RULES, ExactSession
from agentgym_rl.envs.babyai.geometry import Plan
from agentgym_rl.envs.babyai.goals import achieved, missions
from agentgym_rl.envs.babyai.level import Level, Outcome
from agentgym_rl.envs.babyai.levels import LAYERS, LEVELS, MAX_INDEX, SPLITS, level_and_seed, splits
from agentgym_rl.envs.babyai.oracle import solve
from agentgym_rl.envs.babyai.wording import ending_note, observe, quoted_list, refusal_note
from agentgym_rl.envs.core import Achieved, BlockingEnv, Observation, Step, Style, Task, TaskNotFound, in_thread
from agentgym_rl.envs.knobs import Knob
from agentgym_rl.envs.picture import Picture, Transcript, complete
from agentgym_rl.envs.splits import no_task
from agentgym_rl.envs.texts import EnvTexts, read_texts

EXACT = "agentgym-exact"


@dataclass(frozen=True, kw_only=True)
class _Texts(EnvTexts):
    exact: str
    """The instruction that goes with the actions of AgentGym's server."""


_TEXTS = read_texts(__file__, _Texts)


class BabyAI(BlockingEnv):
    """The 40 BabyAI levels of AgentGym (Chevalier-Boisvert et al., 2019, arXiv:1810.08272), on minigrid.

    Success earns minigrid's reward 1 - 0.9 * steps / max_steps, counted in primitive steps, once, and ends the
    episode whatever its size. A mission that can no longer be fulfilled ends with reward 0; minigrid's own step
    limit truncates. ``info`` holds ``invalid``, ``primitive_steps`` and ``raw_reward``.

    Tasks are minigrid's levels as they are, with one repair (:class:`.level.StrictOrder`). In GoToImpUnlock and Unlock
    minigrid may lock the key behind its own door; such a task (246 and 566 of the first 900) has no solution and
    :meth:`oracle` refuses it.

    Args:
        style: wording of instruction and observations.
        wording: ``agentgym-exact`` gives observations, goals and actions to the letter of AgentGym's server
            (:mod:`.exact`), in the style ``agentgym``; rewards and endings stay as above.
        levels: let all splits have tasks of this level, or of these levels, only.

    Raises:
        ValueError: there is no such level, or the wording is of another style.
    """

    name = "babyai"
    knobs = (Knob("levels", LEVELS),)
    level: Level
    """The level of the last reset."""
    _options: dict[str, Plan]
    _session: ExactSession

    def __init__(
        self,
        style: Style = "agentgym",
        wording: Literal["own", "agentgym-exact"] = "own",
        levels: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__(style)
        if wording == EXACT and style != "agentgym":
            raise ValueError(f"wording {EXACT} is a wording of the style agentgym, not of {style}")
        self.wording, self._rules = wording, RULES if wording == EXACT else OWN
        instructions = _TEXTS.instructions
        self._spec = _TEXTS.spec(
            self.name,
            SPLITS if levels is None else splits([levels] if isinstance(levels, str) else levels),
            instructions={**instructions, "agentgym": _TEXTS.exact} if wording == EXACT else instructions,
        )

    def _reset_blocking(self, task: Task) -> Observation:
        if self.wording == EXACT:
            self._session = ExactSession(task.index)
            self.level = self._given(task, self._session.level)
            return self._session.first()
        self.level = self._given(task, Level(task.index))
        return self._observation(first=True)

    def _step_blocking(self, action: str) -> Step:
        """Carry out one command; see :func:`agentgym_rl.envs.babyai.commands.options`."""
        if self.wording == EXACT:
            observation, outcome, refused = self._session.step(action)
            return self._result(observation, outcome, invalid=refused)
        command = normalize(action)
        plan = self._options.get(command)
        if plan is None:
            note = refusal_note(self.level, command, self.style)
            return self._result(self._observation(note), Outcome(), invalid=True)
        if command == CHECK:
            listed = f"You can take these actions: {quoted_list(self._options)}"
            return self._result(Observation(listed, tuple(self._options)), Outcome())
        outcome = self.level.execute(plan)
        success = outcome.terminated and outcome.reward > 0
        note = ending_note(self.style, success=success, out_of_steps=outcome.truncated) if outcome.over else ""
        return self._result(self._observation(note, over=outcome.over), outcome)

    def goal(self, task: Task) -> str:
        """The mission. Generates the level, which takes milliseconds."""
        return self._level(task).mission

    async def content(self, task: Task) -> str:
        """The whole layout, of which the first observation shows a part."""
        return (await in_thread(self._level, task)).layout

    def difficulty(self, task: Task) -> str:
        """The level's name, such as ``GoToRedBallGrey``."""
        return LEVELS[level_and_seed(self._index(task))[0]]

    def revision(self, task: Task) -> int:
        """2 for variants, of which those that repeated another split's layout are drawn again."""
        return 2 if any(self._index(task) in indices for indices in LAYERS[1:]) else 1

    def oracle(self, task: Task) -> list[str]:
        """See :func:`.oracle.solve`. May take more turns than the default limit."""
        return solve(self._index(task), self.spec.max_turns, self._rules)

    def achieved(self, task: Task, commands: Sequence[str]) -> Achieved | None:
        """See :func:`.goals.achieved`."""
        twin = BabyAI(self.style, self.wording)
        twin._reset_blocking(task)
        return achieved(twin.level, twin._step_blocking, commands)

    @classmethod
    def pictures(cls, transcript: Transcript) -> list[Picture | None]:
        """Replays the commands. There are no pictures where the replay differs from the episode, nor after that."""
        try:
            task = Task.parse(transcript.item_id)
            for env in (*map(cls, _TEXTS.instructions), cls(wording="agentgym-exact")):
                if env._reset_blocking(task).text == transcript.first:
                    return complete(env._replay(transcript), transcript)
        except TaskNotFound:
            pass
        return complete((), transcript)

    def _replay(self, transcript: Transcript) -> Iterator[Picture]:
        yield draw(self.level)
        for action, observation in transcript.turns:
            if action is not None and self._step_blocking(action).observation.text != observation:
                return
            yield draw(self.level)

    def _level(self, task: Task) -> Level:
        return self._given(task, self._rules.level(self._index(task)))

    def _given(self, task: Task, level: Level) -> Level:
        """A fresh level with the mission of this session."""
        if self._pursued:
            if (instruction := missions(level).get(self._pursued)) is None:
                raise self._no_such_goal(task)
            level.pursue(instruction)
        return level

    def _index(self, task: Task) -> int:
        index = super()._index(task)
        if not 0 <= index <= MAX_INDEX:
            raise no_task(self.name, index, [range(MAX_INDEX + 1)])
        return index

    def _observation(self, note: str = "", *, first: bool = False, over: bool = False) -> Observation:
        self._options = {} if over else options(self.level)
        text = observe(self.level, self.style, self._options, first=first, note=note)
        return Observation(text, tuple(self._options))

    def _result(self, observation: Observation, outcome: Outcome, *, invalid: bool = False) -> Step:
        info = {"invalid": invalid, "primitive_steps": self.level.steps, "raw_reward": outcome.reward}
        return Step(observation, outcome.reward, outcome.terminated, outcome.truncated, info)
