"""verl's agent loop for text environments: ``rollout.agent.default_agent_loop=agentgym``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache, partial
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from agentgym_rl.data.episode import Episode
from agentgym_rl.envs import Task
from agentgym_rl.envs.hosts import HostSettings, open_host
from agentgym_rl.rollout.builder import faithful
from agentgym_rl.rollout.client import EpisodeClient
from agentgym_rl.rollout.folding import Segment
from agentgym_rl.rollout.gateway.chat import Chat
from agentgym_rl.rollout.loop import failed, run_episode
from agentgym_rl.rollout.prefix import Prefix
from agentgym_rl.rollout.recorder import EpisodeRecorder
from agentgym_rl.rollout.seeds import seed_of
from agentgym_rl.rollout.settings import RolloutSettings
from agentgym_rl.rollout.tokens import NONE, TokenConversation

NAME = "agentgym"

opener = cache(open_host)
"""One per host and process: all episodes share its workers and connections."""

GREEDY = {"temperature": 0.0, "top_p": 1.0, "top_k": -1}
SAMPLED = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}
DECODING = {"greedy": GREEDY, "sampled": SAMPLED}


class AgentGymLoop(AgentLoopBase):  # type: ignore[misc]
    """Runs one episode; its output is one segment or, where a prompt does not extend the one before, several.

    A dataset row gives ``item_id`` (AgentGym's), and may give ``max_turns``, ``decoding`` (``greedy`` or
    ``sampled``, at its ``temperature``; verl's sampling parameters without it), ``tags`` (copied into the episode),
    ``stream`` (with the number of the ``sample``, what the seeds of its requests follow from; without it vLLM draws
    from the generator that all requests share), ``prefix`` (responses to replay first, see
    :class:`agentgym_rl.rollout.prefix.Prefix`), ``preface`` (text before the first observation), and of a part of an
    environment ``part_of`` and ``options`` (the environment, and what the part adds to its options). Rules come from
    ``data.agentgym``, see :class:`RolloutSettings`; an environment's options from ``data.agentgym_envs.<name>``, where
    it runs from ``host`` in there, see :class:`HostSettings`, and the program that plays it, if one does, from
    ``harness``, see :class:`~agentgym_rl.rollout.harness.settings.Harness`.

    Every row that is asked for comes back, whatever was raised: as an episode with an ending and an error.

    With a ``recorder`` the outputs carry the episode without the text and log-probability of single tokens, and the
    recorder keeps them (:mod:`agentgym_rl.rollout.recorder`).
    """

    def __init__(self, *arguments: Any, recorder: EpisodeRecorder | None = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.recorder = recorder
        faithful(self.continuous_token_builder)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:
        try:
            episode, conversation = await self._episode(sampling_params, row)
            return self._outputs(episode, row, conversation)
        except Exception as error:  # noqa: BLE001 - every episode that is asked for is counted
            return self.lost(row, error)

    def lost(self, row: dict[str, Any], error: BaseException) -> list[AgentLoopOutput]:
        """The output of an episode that an exception ended."""
        return self._outputs(failed(Task.parse(row["item_id"]), int(row.get("max_turns") or 0), error), row)

    async def _episode(
        self, sampling_params: dict[str, Any], row: dict[str, Any]
    ) -> tuple[Episode, TokenConversation | Chat | None]:
        settings = RolloutSettings.from_mapping(self.data_config.get("agentgym") or {})
        task, limit = Task.parse(row["item_id"]), row.get("max_turns")
        whole_env = row.get("part_of") or task.env
        options = dict((self.data_config.get("agentgym_envs") or {}).get(whole_env) or {}) | (row.get("options") or {})
        harness, host = options.pop("harness", None), HostSettings.of(options.pop("host", {}))
        make_env = partial(opener(host).open, task.env, {"style": settings.style.value, **options})
        request_id, max_turns, preface = uuid4().hex, None if limit is None else int(limit), row.get("preface") or ""
        model: dict[str, Any] = {
            "server": self.server_manager, "request_id": request_id, "tokenizer": self.tokenizer,
            "builder": self.continuous_token_builder, "sampling": _sampling(sampling_params, row),
            "prompt_limit": self.rollout_config.prompt_length, "response_limit": self.rollout_config.response_length,
        }  # fmt: skip
        try:
            if harness is not None:
                from agentgym_rl.rollout.harness.training import run_in_training  # needs a web server

                rest = settings, max_turns, int(row.get("sample", 0)), preface
                return await run_in_training(harness, make_env, task, model, *rest)
            prefix = NONE if row.get("prefix") is None else Prefix.from_dict(row["prefix"])
            converse = partial(TokenConversation, **model, settings=settings, prefix=prefix)
            return await run_episode(make_env, task, converse, settings, max_turns, preface=preface)
        finally:
            if isinstance(self.server_manager, EpisodeClient):
                self.server_manager.leave(request_id)

    def _outputs(
        self, episode: Episode, row: dict[str, Any], conversation: TokenConversation | Chat | None = None
    ) -> list[AgentLoopOutput]:
        """One output per segment with a response; the last one carries the episode.

        An episode that does not count, or has no response, becomes one masked token, so that every sum over it is zero.
        """
        episode.tags = dict(row.get("tags") or {})
        episode.seed = int(row.get("seed", 0))
        episode.model_step = int(row.get("global_steps", 0))
        carried = episode if self.recorder is None else self.recorder.record(episode)
        segments: Sequence[Segment] = []
        weights: Collection[int] = {episode.model_step - 1}  # the update before the step that asked
        if episode.ending.counts and conversation is not None:
            segments = [segment for segment in conversation.segments if segment.response_ids]
            weights = conversation.weights or weights
        segments = segments or [masked(self.tokenizer.eos_token_id)]
        metrics = AgentLoopMetrics(
            generate_sequences=sum(turn.model_s for turn in episode.turns),
            tool_calls=sum(turn.env_s for turn in episode.turns),
        )
        return [
            AgentLoopOutput(
                prompt_ids=segment.prompt_ids,
                response_ids=segment.response_ids,
                response_mask=segment.response_mask,
                response_logprobs=segment.log_probs,
                reward_score=episode.reward,
                num_turns=len(episode.turns),
                metrics=metrics,
                extra_fields={
                    "episode": carried if last else None,
                    "min_global_steps": min(weights),
                    "max_global_steps": max(weights),
                    "reward_extra_info": {"acc": float(episode.success)},
                },
            )
            for segment, last in zip(segments, [False] * (len(segments) - 1) + [True], strict=True)
        ]


def _sampling(sampling_params: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """The sampling parameters of a row's episode; ``sampling_params`` are verl's."""
    decoding = row.get("decoding")
    sampling = sampling_params if decoding is None else DECODING[decoding]
    if decoding == "sampled" and "temperature" in row:
        sampling = {**sampling, "temperature": row["temperature"]}
    if (stream := row.get("stream")) is not None:
        sampling = {**sampling, "seed": seed_of(stream, row.get("sample", 0))}
    return sampling


def masked(token: int) -> Segment:
    """One token that nothing is learned from."""
    return Segment([token], [token], [0], [0.0])
