"""What models were asked for, over every command that went on with the same work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_rl.rollout.journal import Entry, Journal
from agentgym_rl.rollout.policies import Policy, Usage


@dataclass(frozen=True)
class Spending:
    """Calls and tokens of several models, which a journal keeps for the command that goes on."""

    models: Sequence[Policy]

    def used(self) -> list[list[int]]:
        """Calls, prompt and completion tokens of each."""
        usages = [model.usage or Usage() for model in self.models]
        return [[usage.calls, usage.prompt_tokens, usage.completion_tokens] for usage in usages]

    def keep(self, journal: Journal) -> None:
        """Add what was used so far, also for what did not finish."""
        journal.add("so far", Entry(facts={"used": self.used()}))

    def restore(self, journal: Journal) -> None:
        """Count what was used before a stop."""
        recorded = [entry.facts["used"] for entry in journal.entries.values() if "used" in entry.facts]
        for at, model in enumerate(self.models):
            if recorded and model.usage is not None:
                used_most = max(used[at] for used in recorded)
                if used_most[0] > model.usage.calls:
                    model.usage.calls, model.usage.prompt_tokens, model.usage.completion_tokens = used_most
