"""The environment of tools: calls change or read a state, ``finish`` ends the episode with a reward."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic

from agentgym_rl.envs.actions import parse_rest
from agentgym_rl.envs.core import EnvSpec, Observation, OracleUnavailable, Step, Style, Task
from agentgym_rl.envs.tools import to_command
from agentgym_rl.envs.tooluse import wording
from agentgym_rl.envs.tooluse.problem import Draft, Problem
from agentgym_rl.envs.tooluse.tasks import TaskSource
from agentgym_rl.envs.tooluse.tool import CHECK, FINISH, Function, Refused, S, read_command
from agentgym_rl.envs.tooluse.written import DONE, ExplorableTools, WrittenTasks, value_of


class ToolEnv(ExplorableTools, Generic[S]):
    """Base of the environments whose actions are calls ``<name> with Action Input: <arguments as JSON>``.

    An environment gives its texts, functions and tasks; the base adds ``finish`` and ``check_valid_actions``. The
    reward is 1 when every subgoal is met at ``finish``, else 0; only ``finish`` ends an episode. ``info`` holds
    ``invalid`` and ``raw_reward``, the share of subgoals that are met.

    Args:
        style: wording of instruction and observations.
        draft: class of the drafts of its tasks, which holds its texts and its own tools.
        own: its tasks.
        tasks: file of tasks that take their place, and begin as they do: :mod:`agentgym_rl.envs.tooluse.written`.
    """

    def __init__(self, style: Style, draft: type[Draft[S]], own: TaskSource[S], tasks: str | None = None) -> None:
        super().__init__(style)
        self._functions: Mapping[str, Function] = draft.functions
        self._own = own
        self._tasks = own if tasks is None else WrittenTasks(self.name, tasks, own, draft)
        functions = list(draft.functions.values())
        tools = (*(function.tool for function in functions), CHECK, draft.finish)
        self._tools = {tool.name: tool for tool in tools}
        self._spec = EnvSpec(
            name=self.name,
            instructions={
                each: wording.instruction(each, draft.texts, functions, draft.finish) for each in self.styles
            },
            splits=self._tasks.splits,
            max_turns=15,
            success_above=0.99,
            tools=tools,
            read=parse_rest,
            write=wording.write,
            licence=draft.texts.licence,
            official=draft.texts.official_tasks,
        )
        self._problem: Problem[S]
        self._state: S

    async def _reset(self, task: Task) -> Observation:
        self._problem = self._find(task)
        self._state = self._problem.start()
        return Observation(wording.first(self._problem.goal, self.style))

    async def _step(self, action: str) -> Step:
        answer: Any = None
        invalid = False
        try:
            name, arguments = read_command(self._tools, action)
            if name == FINISH.name:
                answer = arguments.get("answer", DONE)
                text = wording.result(str(answer), self.style)
            elif name == CHECK.name:
                text = wording.names(self._spec.tools, self.style)
            else:
                text = self._call(self._functions[name], arguments)
        except Refused as error:
            invalid = True
            text = wording.refused(str(error), self.style)
        done = answer is not None
        progress = self._problem.progress(self._state, answer)
        info = {"invalid": invalid, "raw_reward": progress}
        return Step(Observation(text), float(done and progress >= 1), terminated=done, info=info)

    def goal(self, task: Task) -> str:
        return self._find(task).label

    async def content(self, task: Task) -> str:
        return self.goal(task)

    def difficulty(self, task: Task) -> str:
        """The number of calls of the oracle, ``finish`` among them, such as ``calls 4-5``."""
        return self._tasks.difficulty(self._index(task))

    def oracle(self, task: Task) -> list[str]:
        plan = self._find(task).plan
        if not plan:
            raise OracleUnavailable(f"no solution of {task} is known")
        return [to_command(self._spec.tools, name, arguments) for name, arguments in plan]

    @property
    def starts(self) -> Mapping[str, Sequence[int]]:
        return self._own.splits

    async def ask(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return value_of(self._functions, self._state, name, arguments)

    def _call(self, function: Function, arguments: Mapping[str, Any]) -> str:
        result = function.run(self._state, **arguments)
        return wording.result(function.brief(result) if self.style == "compact" else str(result), self.style)

    def _find(self, task: Task) -> Problem[S]:
        return self._tasks.problem(self._index(task))
