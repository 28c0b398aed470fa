"""The rules of an evaluation: limits, wording and options, a run's or the environments' own."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from agentgym_rl.data.files import write_text
from agentgym_rl.data.written_by import package_version
from agentgym_rl.envs.splits import fingerprint
from agentgym_rl.envs.tables import json_object, read_utf8
from agentgym_rl.rollout.settings import RolloutSettings, Style

FILE = "agentgym_rl.json"
"""Beside the weights of an exported model: the rules it was trained by."""
NAMED = "name tasks instead of the run, such as panel=textcraft:test"
"""What to do where the configuration of a run cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules of an evaluation."""

    settings: RolloutSettings = field(default_factory=RolloutSettings)
    """Rules of an episode; ``settings.max_turns`` goes before ``max_turns``."""
    max_turns: Mapping[str, int] = field(default_factory=dict)
    """Turn limits by environment; one left out has its own."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of environment classes, by environment."""
    prompt_tokens: int | None = None
    """Most tokens before the first response of a local model; None is half its context."""
    response_tokens: int | None = None
    """Most tokens from the first response on; None is what the context leaves."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of a local model's chat template, e.g. ``enable_thinking``."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What a model reads before the first observation, by environment: what it was trained with, and a playbook."""

    @classmethod
    def of_run(cls, config: Mapping[str, Any]) -> Rules:
        """The rules of a run, from its whole configuration (``config.yaml``)."""
        envs, rollout, model = config["envs"], config["rollout"], config["model"]
        names = {setting.name for setting in fields(RolloutSettings)} - {"max_turns"}  # an environment's own goes first
        limits = {name: env["max_turns"] or rollout.get("max_turns") for name, env in envs.items()}
        return cls(
            settings=RolloutSettings.from_mapping({key: rollout[key] for key in names if key in rollout}),
            max_turns={name: limit for name, limit in limits.items() if limit is not None},
            options={name: env["options"] for name, env in envs.items() if env["options"]},
            prompt_tokens=model["prompt_tokens"],
            response_tokens=model["response_tokens"],
            template_arguments=config.get("verl", {}).get("data", {}).get("apply_chat_template_kwargs", {}),
        )

    @classmethod
    def of_runs(cls, runs: Sequence[Path]) -> Rules:
        """The rules of runs, each for its own environments.

        Raises:
            ValueError: two of them differ, but for what environments of only one of them have; or see
                :func:`read_config`.
        """
        configs = {run: read_config(run) for run in runs}
        rules = {}
        for run, config in configs.items():
            with whole(run, NAMED):
                rules[run] = cls.of_run(config)
        for first, second in combinations(runs, 2):
            both = configs[first]["envs"].keys() & configs[second]["envs"].keys()
            if rules[first]._only(both) != rules[second]._only(both):
                raise ValueError(f"the rules of {first} and {second} differ; evaluate on the panels of one at a time")
        return replace(
            rules[runs[0]],
            max_turns={env: limit for own in rules.values() for env, limit in own.max_turns.items()},
            options={env: options for own in rules.values() for env, options in own.options.items()},
        )

    def _only(self, envs: Collection[str]) -> Rules:
        """These rules without what other environments have."""
        return replace(
            self,
            max_turns={env: limit for env, limit in self.max_turns.items() if env in envs},
            options={env: options for env, options in self.options.items() if env in envs},
        )

    @classmethod
    def beside(cls, model: Path) -> Rules | None:
        """The rules an exported model was trained by; None for a folder without them.

        Raises:
            ValueError: the file in the folder cannot be read.
        """
        file = model / FILE
        if not file.is_file():
            return None
        try:
            return cls.from_dict(json_object(file)["rules"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{file} was not written by agentgym-rl export: {error}") from error

    def keep(self, model: Path, facts: Mapping[str, Any]) -> None:
        """Write the rules, and what else is known of the weights, into a model's folder."""
        content = {"agentgym-rl": package_version(), **facts, "rules": self.to_dict()}
        write_text(model / FILE, json.dumps(content, indent=1) + "\n")

    def but(self, **changes: Any) -> Rules:
        """These rules with other settings of episodes; what is None stays as it is, but for the context of a style that
        has its own, and of the next one."""
        given = {key: value for key, value in changes.items() if value is not None}
        before, style = self.settings.style, given.get("style", self.settings.style)
        if style != before and Style.verl_agent in (style, before):
            given = {"context": None, **given}
        return replace(self, settings=replace(self.settings, **given))

    def of_env(self, env: str) -> RolloutSettings:
        """Rules of an episode in an environment."""
        limit = self.settings.max_turns
        return replace(self.settings, max_turns=self.max_turns.get(env) if limit is None else limit)

    def options_of(self, env: str) -> dict[str, Any]:
        return dict(self.options.get(env, {}))

    def session_options(self, env: str) -> dict[str, Any]:
        """Options of an environment's class, with the style of the episodes."""
        return {**self.options_of(env), "style": self.settings.style.value}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rules:
        """The inverse of :meth:`to_dict`."""
        return cls(**{**data, "settings": RolloutSettings.from_mapping(data["settings"])})


def digests(prompts: Mapping[str, str]) -> dict[str, str]:
    """Of texts, by environment."""
    return {env: fingerprint(text, 12) for env, text in sorted(prompts.items())}


@contextmanager
def whole(run: Path, instead: str) -> Iterator[None]:
    """Inside, keys of a run's configuration are read.

    Args:
        instead: what to do where one is missing.

    Raises:
        ValueError: one is.
    """
    try:
        yield
    except KeyError as error:
        raise ValueError(
            f"{run}/config.yaml has no key {error.args[0]!r}: another version wrote it; {instead}"
        ) from error


def read_config(run: Path) -> dict[str, Any]:
    """The whole configuration of a run.

    Raises:
        FileNotFoundError: the folder holds no run.
        ValueError: its configuration cannot be read.
    """
    file = run / "config.yaml"
    if not file.is_file():
        raise FileNotFoundError(f"{file} does not exist; {run} is not the folder of a run")
    try:
        config = yaml.safe_load(read_utf8(file))
    except yaml.YAMLError as error:
        raise ValueError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict) or not {"envs", "rollout", "model"} <= set(config):
        raise ValueError(f"{file} is not the configuration of a run")
    parts = {key: config[key] for key in ("envs", "rollout", "model")}
    if isinstance(parts["envs"], dict):
        parts |= {f"envs.{env}": settings for env, settings in parts["envs"].items()}
    if wrong := [key for key, part in parts.items() if not isinstance(part, dict)]:
        raise ValueError(f"{file} is not the configuration of a run: {wrong[0]} is {parts[wrong[0]]!r}, not a mapping")
    return config


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves under dotted keys; an empty mapping is a leaf."""
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
