"""Several runs from one command: Hydra's sweep grammar spelled out as jobs, all checked before the first starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from agentgym_rl.engine.recipe import overrides as words
from agentgym_rl.engine.recipe import preflight
from agentgym_rl.engine.recipe.compose import RecipeError, identity, load, loader, options, remarks
from agentgym_rl.engine.recipe.config import Config
from agentgym_rl.engine.recipe.digest import digest
from agentgym_rl.engine.recipe.resolved import Resolved
from agentgym_rl.engine.run.folder import RunFolder
from agentgym_rl.engine.verl.mapping import check_verl
from agentgym_rl.envs.core import EnvError

NAMED_BY = {
    "algorithm": "algorithm.name",
    "curriculum": "curriculum.type",
    "engine": "engine.device",
    "mixture": "mixture.type",
    "model": "model.path",
}
"""The key that holds a group's choice."""

NAMELESS = {"env", "experiment", "logger"}
"""Groups whose choice no key holds."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a sweep."""

    label: str
    """The overrides that are its own, e.g. ``algorithm=grpo seed=2``."""
    config: Config
    standing: str
    """new, interrupted (it goes on where it stopped) or finished (it is left as it is)."""
    remarks: Sequence[str] = ()
    """See :func:`agentgym_rl.engine.recipe.compose.remarks`."""

    @property
    def folder(self) -> Path:
        """Where it writes."""
        return Path(self.config.run.dir)

    def resolved(self) -> Resolved:
        """The run, with parts that are built when it starts."""
        return Resolved(self.config)


def expand(overrides: Sequence[str]) -> list[tuple[list[str], list[str]]]:
    """The swept and all overrides of each job, the last sweep changing fastest.

    Args:
        overrides: Hydra's grammar: ``algorithm=grpo,ppo seed=range(0,3) env=glob(*)``.

    Raises:
        RecipeError: an override is not in Hydra's grammar, or sweeps over an interval.
    """
    words.check(overrides, options)
    choices: list[list[str]] = []
    swept: list[bool] = []
    try:
        with loader() as config_loader:
            parser = OverridesParser.create(config_loader)
            for override in parser.parse_overrides(list(overrides)):
                swept.append(override.is_sweep_override())
                if not swept[-1]:
                    choices.append([str(override.input_line)])
                    continue
                if not override.is_discrete_sweep():
                    raise RecipeError(f"{override.input_line} has no end of values; list them: key=1,2 or range(1,4)")
                key = override.get_key_element()
                choices.append([f"{key}={_as_written(value)}" for value in override.sweep_string_iterator()])
                if not choices[-1]:
                    raise RecipeError(f"{override.input_line} matches nothing")
    except HydraException as error:
        raise RecipeError(words.unreadable(error) or f"{error}") from error
    return [
        ([override for override, is_swept in zip(chosen, swept, strict=True) if is_swept], list(chosen))
        for chosen in product(*choices)
    ]


def _as_written(value: str) -> str:
    """A swept value with its colons, which Hydra escapes: files (``./mine.py:Mine``) and addresses have some."""
    return value if value[:1] in "'\"[{" else value.replace("\\:", ":")


def jobs(overrides: Sequence[str], *, show: bool = False) -> list[Job]:
    """The jobs of a sweep, composed and checked as far as possible before anything starts.

    Args:
        show: they are only listed, for which this machine needs no GPUs.

    Raises:
        RecipeError: the message names the job and what is wrong with it, or the jobs that would share a folder.
        RunFolderError: a folder holds another run.
    """
    expanded = expand(overrides)
    configs: list[Config] = []
    for number, (swept, all_of) in enumerate(expanded, start=1):
        try:
            config = load(all_of)
            run = Resolved(config)
            preflight.check(run, devices=not show)
            check_verl(run)
            run.ask_envs()
        except (EnvError, ValueError, FileNotFoundError) as error:
            raise RecipeError(f"job {number} of {len(expanded)} ({' '.join(swept or all_of)}): {error}") from error
        configs.append(config)
    _check_folders([swept for swept, _ in expanded], configs)
    group = group_name(overrides, [config.name for config in configs])
    planned = []
    for (swept, all_of), config in zip(expanded, configs, strict=True):
        if config.logger.group is None:
            config = replace(config, logger=replace(config.logger, group=group))
        planned.append(Job(" ".join(swept or all_of), config, _standing(config), remarks(config, all_of)))
    return planned


def by_engine(listed: Sequence[Job]) -> list[Job]:
    """Jobs in an order in which those that can share an engine follow each other."""
    order: dict[tuple[bool, str], int] = {}
    keys = [(Resolved(job.config).needs.critic is not None, digest(job.config, cloned=False)) for job in listed]
    for key in keys:
        order.setdefault(key, len(order))
    return [job for _, job in sorted(zip(keys, listed, strict=True), key=lambda pair: order[pair[0]])]


def group_name(overrides: Sequence[str], names: Sequence[str]) -> str | None:
    """The shared name of all jobs: the experiment where there is one, else the first words of their names."""
    experiments = [override.partition("=")[2] for override in overrides if override.startswith("experiment=")]
    if len(experiments) == 1 and re.fullmatch(r"[\w-]+", experiments[0]):
        return experiments[0]
    words = [re.split(r"([-_./])", name) for name in names]
    shared = [column[0] for column in takewhile(lambda column: len(set(column)) == 1, zip(*words, strict=False))]
    return "".join(shared).rstrip("-_./") or None


def _check_folders(swept: Sequence[Sequence[str]], configs: Sequence[Config]) -> None:
    """No two jobs write to the same folder."""
    first: dict[Path, int] = {}
    for number, config in enumerate(configs):
        other = first.setdefault(Path(config.run.dir).resolve(), number)
        if other == number:
            continue
        keys = [here.partition("=")[0].lstrip("+") for there, here in zip(swept[other], swept[number], strict=True)
                if there != here]  # fmt: skip
        if not keys:
            raise RecipeError(f"jobs {other + 1} and {number + 1} are the same ({' '.join(swept[number])})")
        if set(keys) & NAMELESS:
            mend = f"{' and '.join(keys)} cannot be put into a name; start them by commands with names of their own"
        else:
            all_keys = [override.partition("=")[0].lstrip("+") for override in swept[number]]
            ending = "".join(f"-${{{NAMED_BY.get(key, key)}}}" for key in all_keys if key not in NAMELESS)
            mend = f"put {' and '.join(keys)} into the name, e.g. 'name=my-sweep{ending}'"
        raise RecipeError(
            f"jobs {other + 1} ({' '.join(swept[other])}) and {number + 1} ({' '.join(swept[number])}) would share the "
            f"folder {config.run.dir}; {mend}"
        )


def _standing(config: Config) -> str:
    """How far a job is, by its folder."""
    if not (Path(config.run.dir) / "state.json").is_file():
        return "new"
    folder = RunFolder(Path(config.run.dir), identity(config), config.run.resume)
    extended = folder.load_state().extend(Resolved(config).algorithm.units, config.budget)
    return "finished" if folder.finished and not extended else "interrupted"
