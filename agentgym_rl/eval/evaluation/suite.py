"""The panels of an evaluation: tasks of one or several environments, with one digest over all of them."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.data.files import is_source
from agentgym_rl.data.panels import digest, read_item_ids, select
from agentgym_rl.envs import Task
from agentgym_rl.envs.hosts import EnvHost, LocalHost
from agentgym_rl.envs.numbering import Panel
from agentgym_rl.envs.registry import available
from agentgym_rl.eval.evaluation.rules import NAMED, Rules, read_config, whole

_DRAWN = re.compile(r"(?P<env>[a-z][a-z0-9_]*):(?P<split>[^:]+)(?::(?P<n>\d+)(?::(?P<seed>\d+))?)?")


@dataclass(frozen=True, slots=True)
class Suite:
    """Tasks to evaluate on. Equal digests mean the same tasks, wherever they were named."""

    panels: tuple[Panel, ...]
    """One per environment, in the order of their names."""
    difficulties: Mapping[str, str]
    """Difficulty of each task, by item id."""

    @property
    def digest(self) -> str:
        """The panel's own; of several the first 12 hex digits of the sha256 over lines ``env digest``."""
        if len(self.panels) == 1:
            return self.panels[0].digest
        lines = "".join(f"{panel.env} {panel.digest}\n" for panel in self.panels)
        return hashlib.sha256(lines.encode()).hexdigest()[:12]

    @property
    def envs(self) -> list[str]:
        return [panel.env for panel in self.panels]

    @property
    def tasks(self) -> list[Task]:
        return [Task.parse(item_id) for panel in self.panels for item_id in panel.item_ids]

    def to_dict(self) -> dict[str, Any]:
        """Digest and size, of the whole and of each environment's."""
        envs = {
            panel.env: {"name": panel.name, "digest": panel.digest, "n": len(panel.item_ids)} for panel in self.panels
        }
        return {"digest": self.digest, "n": len(self.tasks), "envs": envs}


def read(names: str, rules: Rules, host: EnvHost | None = None) -> Suite:
    """The tasks that a list of names, separated by commas, stands for; each task counts once.

    A name is ``<env>:<split>``, ``<env>:<split>:<n>`` or ``<env>:<split>:<n>:<seed>`` (``n`` tasks drawn by the seed, 0
    where left out); a file of item ids, here or on the hub, of which every environment takes its tasks; or the folder
    of a run, with ``:<label>`` where it has panels of several labels.

    Args:
        rules: give the options of the environments.
        host: where the environments run, see :meth:`agentgym_rl.envs.hosts.EnvHost.facts`; None is this process.

    Raises:
        FileNotFoundError: a file or run does not exist.
        ValueError: a name cannot be read; see also :func:`agentgym_rl.data.panels.select`.
        UnknownEnv, MissingExtra: an environment is not installed.
    """
    by_env: dict[str, list[Panel]] = {}
    host = host or LocalHost()
    for name in filter(None, (part.strip() for part in names.split(","))):
        for panel in _named(name, rules, host):
            by_env.setdefault(panel.env, []).append(panel)
    if not by_env:
        raise ValueError(
            f"panel={names} names no panel; give one like textcraft:test, textcraft:test:50 or a file of item ids"
        )
    panels: list[Panel] = []
    difficulties: dict[str, str] = {}
    for env, parts in sorted(by_env.items()):
        session = host.facts(env, rules.options_of(env))
        tasks = sorted(
            {Task.parse(item_id) for part in parts for item_id in part.item_ids}, key=lambda task: task.index
        )
        difficulties |= {str(task): session.difficulty(task) for task in tasks}
        label = "+".join(dict.fromkeys(part.name for part in parts))
        panels.append(Panel(label, env, tuple(map(str, tasks)), digest(session, tasks)))
    return Suite(tuple(panels), difficulties)


def runs_of(names: str) -> list[Path]:
    """The runs whose panels are among the names, each once."""
    return list(dict.fromkeys(run for name in names.split(",") if (run := _run(name.strip())[0]) is not None))


def _named(name: str, rules: Rules, host: EnvHost) -> list[Panel]:
    run, label = _run(name)
    if run is not None:
        return _of_run(run, label, rules, host)
    if is_source(name):
        envs = dict.fromkeys(task.env for task in read_item_ids(name))
        return [select(env, name, options=rules.options_of(env), host=host) for env in envs]
    match = _DRAWN.fullmatch(name)
    if match is None:
        if name in available():
            raise ValueError(f"panel {name!r} is an environment without a split; write panel={name}:test")
        raise ValueError(
            f"panel {name!r} is none of <env>:<split>[:<n>[:<seed>]], a file of item ids (.json), and the folder "
            "of a run"
        )
    n, seed = (None if match[key] is None else int(match[key]) for key in ("n", "seed"))
    options = rules.options_of(match["env"])
    return [select(match["env"], match["split"], n=n, seed=seed or 0, options=options, host=host)]


def _run(name: str) -> tuple[Path | None, str | None]:
    """Folder of a run and label of its panels, where the name is that of one."""
    if (Path(name) / "config.yaml").is_file():
        return Path(name), None
    folder, _, label = name.rpartition(":")
    return (Path(folder), label) if folder and (Path(folder) / "config.yaml").is_file() else (None, None)


def _of_run(run: Path, label: str | None, rules: Rules, host: EnvHost) -> list[Panel]:
    envs = read_config(run)["envs"]
    with whole(run, NAMED):
        labels = list(dict.fromkeys(panel for env in envs.values() for panel in env["panels"]))
    if not labels:
        raise ValueError(f"{run} has no panels; name one like textcraft:test")
    if label is None and len(labels) > 1:
        raise ValueError(f"{run} has panels {', '.join(labels)}; say which, like panel={run}:{labels[0]}")
    label = label or labels[0]
    if label not in labels:
        raise ValueError(f"{run} has no panel {label!r}; it has {', '.join(labels)}")
    panels = []
    for env, config in envs.items():
        if label in config["panels"]:
            panel_config = config["panels"][label]
            with whole(run, NAMED):
                how = {key: panel_config[key] for key in ("split", "difficulty", "n", "seed")}
            panels.append(select(env, **how, options=rules.options_of(env), host=host))
    return panels
