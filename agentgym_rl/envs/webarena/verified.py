"""WebArena's tasks as they were audited for the package ``webarena-verified``, scored by its evaluators.

They look at the agent's answer, which is JSON, and at the requests of the pages. No language model is asked.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentgym_rl.envs.core import EnvFault
from agentgym_rl.envs.extras import missing

PACKAGE = "webarena_verified"


class Verified:
    """The tasks and evaluators of the installed package.

    Args:
        urls: addresses of sites.

    Raises:
        MissingExtra: the package is not installed.
    """

    def __init__(self, urls: Mapping[str, str]) -> None:
        spec = find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise missing("tasks=verified", "webarena-verified", "verified")
        self.tasks = Path(spec.submodule_search_locations[0], "assets", "dataset", "webarena-verified.json")
        self._urls = {f"__{site.upper()}__": {"urls": [url]} for site, url in urls.items()}
        self._package: Any = None

    def solved(self, number: int, answer: str, trace: Path) -> bool:
        """Whether a task is solved; blocks.

        Args:
            answer: the argument of ``stop``.
            trace: the requests of the episode as a HAR file.

        Raises:
            EnvFault: the evaluators fail.
        """
        from pydantic import ValidationError
        from webarena_verified.api import WebArenaVerified
        from webarena_verified.types.agent_response import FinalAgentResponse
        from webarena_verified.types.config import WebArenaVerifiedConfig

        try:
            response = FinalAgentResponse.model_validate_json(answer)
        except ValidationError:
            return False  # no answer in the form that the task asks for
        if self._package is None:
            self._package = WebArenaVerified(config=WebArenaVerifiedConfig(environments=self._urls))
        result = self._package.evaluate_task(
            task_id=number, agent_response=response.model_dump(mode="json"), network_trace=trace
        )
        if result.status == "error":
            raise EnvFault(f"webarena-verified cannot score task {number}: {result.error_msg}")
        return bool(result.score == 1)
