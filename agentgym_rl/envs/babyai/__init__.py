"""BabyAI: grid rooms, a mission in words, and commands that walk, carry and open doors."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym_rl.envs.babyai.commands import CHECK, normalize, options
from agentgym_rl.envs.babyai.drawing import draw
from agentgym_rl.envs.babyai.geometry import Plan
from agentgym_rl.envs.babyai.level import Level, Outcome
from agentgym_rl.envs.babyai.levels import LEVELS, MAX_INDEX, SPLITS, level_and_seed
from agentgym_rl.envs.babyai.oracle import solve
from agentgym_rl.envs.babyai.wording import ending_note, observe, quoted_list, refusal_note
from agentgym_rl.envs.core import BlockingEnv, EnvSpec, Observation, Step, Task, TaskNotFound
from agentgym_rl.envs.picture import Picture, Transcript
from agentgym_rl.envs.splits import no_task
from agentgym_rl.envs.texts import EnvTexts, read_texts

_TEXTS = read_texts(__file__, EnvTexts)


class BabyAI(BlockingEnv):
    """The 40 BabyAI levels of AgentGym (Chevalier-Boisvert et al., 2019, arXiv:1810.08272), on minigrid.

    Success earns minigrid's reward 1 - 0.9 * steps / max_steps, counted in primitive steps, once, and ends the
    episode whatever its size. A mission that can no longer be fulfilled ends with reward 0; minigrid's own step
    limit truncates. ``info`` holds ``invalid``, ``primitive_steps`` and ``raw_reward``.

    Tasks are minigrid's levels as they are, with one repair (:class:`.level.StrictOrder`). In GoToImpUnlock and Unlock
    minigrid may lock the key behind its own door; such a task (246 and 566 of the first 900) has no solution and
    :meth:`oracle` refuses it.
    """

    name = "babyai"
    _spec = EnvSpec(
        name=name,
        instructions=_TEXTS.instructions,
        splits=SPLITS,
        max_turns=20,
        success_above=0.0,
        tools=_TEXTS.tools,
        extra="babyai",
        licence=_TEXTS.licence,
    )

    level: Level
    """The level of the last reset."""
    _options: dict[str, Plan]

    def _reset_blocking(self, task: Task) -> Observation:
        self.level = Level(task.index)
        return self._observation(first=True)

    def _step_blocking(self, action: str) -> Step:
        """Carry out one command; see :func:`agentgym_rl.envs.babyai.commands.options`."""
        command = normalize(action)
        plan = self._options.get(command)
        if plan is None:
            note = refusal_note(self.level, command, self.style)
            return self._result(self._observation(note), Outcome(), invalid=True)
        if command == CHECK:
            listed = f"You can take these actions: {quoted_list(self._options)}"
            return self._result(Observation(listed, tuple(self._options)), Outcome())
        outcome = self.level.execute(plan)
        over = outcome.terminated or outcome.truncated
        success = outcome.terminated and outcome.reward > 0
        note = ending_note(self.style, success=success, out_of_steps=outcome.truncated) if over else ""
        return self._result(self._observation(note, over=over), outcome)

    def goal(self, task: Task) -> str:
        """The mission. Generates the level, which takes milliseconds."""
        return Level(self._index(task)).mission

    def difficulty(self, task: Task) -> str:
        """The level's name, such as ``GoToRedBallGrey``."""
        return LEVELS[level_and_seed(self._index(task))[0]]

    def oracle(self, task: Task) -> list[str]:
        """See :func:`.oracle.solve`. May take more turns than the default limit."""
        return solve(self._index(task), self.spec.max_turns)

    @classmethod
    def pictures(cls, transcript: Transcript) -> list[Picture | None]:
        """Replays the commands. There are no pictures where the replay differs from the episode, nor after that."""
        nothing: list[Picture | None] = [None] * (len(transcript.turns) + 1)
        try:
            task = Task.parse(transcript.item_id)
            for style in _TEXTS.instructions:
                env = cls(style)
                if env._reset_blocking(task).text == transcript.first:
                    return [*env._replay(transcript), *nothing][: len(nothing)]
        except TaskNotFound:
            pass
        return nothing

    def _replay(self, transcript: Transcript) -> Iterator[Picture]:
        yield draw(self.level)
        for action, observation in transcript.turns:
            if action is not None and self._step_blocking(action).observation.text != observation:
                return
            yield draw(self.level)

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
