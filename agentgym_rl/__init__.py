"""Train language-model agents in text environments, on verl.

    import agentgym_rl as ag

    env = ag.make("textcraft")
    observation = env.reset("textcraft_12")
    observation, reward, terminated, truncated, info = env.step("inventory")

    ag.evaluate("oracle", "textcraft:test:20").table
    ag.train(experiment="demo", algorithm="grpo")
    ag.load("runs/demo-grpo-seed0").metrics
    ag.compare("runs/demo-*").table

Importing this loads nothing else; a name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym_rl.api.comparison import RunComparison, compare
    from agentgym_rl.api.evaluation import Evaluation, evaluate
    from agentgym_rl.api.runs import RunData, load
    from agentgym_rl.api.training import train
    from agentgym_rl.envs.registry import available
    from agentgym_rl.envs.sync import SyncEnv, make

__all__ = [
    "Evaluation", "RunComparison", "RunData", "SyncEnv", "available", "compare", "evaluate", "load", "make", "train",
]  # fmt: skip

_PLACES = {
    "Evaluation": "api.evaluation",
    "RunComparison": "api.comparison",
    "RunData": "api.runs",
    "SyncEnv": "envs.sync",
    "available": "envs.registry",
    "compare": "api.comparison",
    "evaluate": "api.evaluation",
    "load": "api.runs",
    "make": "envs.sync",
    "train": "api.training",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    if name == "__version__":
        return import_module(f"{__name__}.data.written_by").package_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__, "__version__"]
