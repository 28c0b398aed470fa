"""WebArena's own tasks, from its files, on sites of the user."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentgym_rl.envs.core import TaskNotFound
from agentgym_rl.envs.tables import json_list, json_object
from agentgym_rl.envs.webarena.config import NO_JUDGE, Config, NotScored, read, read_verified
from agentgym_rl.envs.webarena.verified import Verified

RANGES = {"test": range(50), "train": range(50, 422), "rest": range(422, 10**9)}
"""The ids of each split; AgentGym-RL's sizes."""
SITES = ("shopping", "shopping_admin", "reddit", "gitlab", "map", "wikipedia", "homepage")


def open_files(
    path: str, sites: str | Mapping[str, str], logins: str | None, judged: bool, form: str, hosts: str = ""
) -> Files:
    """The tasks that the sessions of a process with these options share; see :class:`Files`.

    Args:
        sites: see :class:`.WebArena`.
        hosts: see :class:`.WebArena`.
    """
    return _open(path, tuple(sorted(_addresses(sites).items())), logins, judged, form, _hosts(hosts))


@lru_cache(maxsize=8)
def _open(
    path: str, urls: tuple[tuple[str, str], ...], logins: str | None, judged: bool, form: str, hosts: tuple[str, ...]
) -> Files:
    return Files(path, dict(urls), logins, judged, form, hosts)


class Files:
    """The tasks of a file or folder.

    Args:
        path: a file with a list of tasks, such as ``test.raw.json``, or a folder of files with one each; or
            ``verified``, see :mod:`.verified`.
        urls: addresses of sites.
        logins: folder of ``storage_state`` files.
        judged: whether tasks that need a judge can be scored.
        form: what the tasks of ``verified`` say of the form of the answer.
        hosts: that pages may reach beside those of the sites.

    Raises:
        ValueError: a file or an address is wrong, a login is missing, or no task can be played.
        MissingExtra: ``verified`` without its package.
    """

    def __init__(
        self,
        path: str,
        urls: Mapping[str, str],
        logins: str | None,
        judged: bool,
        form: str = "",
        hosts: tuple[str, ...] = (),
    ) -> None:
        self._logins = None if logins is None else Path(logins).expanduser()
        self.urls = urls
        self.hosts = (*(urlsplit(url).netloc.lower() for url in urls.values()), *hosts)
        self._configs: dict[int, Config] = {}
        self.left_out: dict[int, str] = {}
        """Why a task cannot be played, by its id."""
        self.verified = Verified(urls) if path == "verified" else None
        source = Path(path).expanduser() if self.verified is None else self.verified.tasks
        for where, entry in _entries(source):
            number = entry.get("task_id") if isinstance(entry, dict) else None
            if not isinstance(number, int) or number in self._configs or number in self.left_out:
                raise ValueError(f"{where}: task_id {number!r} is no number of its own")
            try:
                config = read(entry, urls, where) if self.verified is None else read_verified(entry, urls, form)
                if config.judged and not judged:
                    raise NotScored(NO_JUDGE)
                self._configs[number] = config
            except NotScored as reason:
                self.left_out[number] = str(reason)
        if not self._configs:
            first = next(iter(self.left_out.items()), (None, "it holds none"))
            raise ValueError(f"{path}: no task can be played; task {first[0]}: {first[1]}")
        for config in self._configs.values():
            if (login := self._login(config)) is not None and not login.is_file():
                raise ValueError(f"task {config.number} needs the login {login}, which does not exist")

    @cached_property
    def splits(self) -> Mapping[str, Sequence[int]]:
        """AgentGym-RL's splits, of the tasks that can be played; an empty ``train`` or ``test`` gets all of those."""
        playable = sorted(self._configs)
        playable_of = {name: tuple(index for index in playable if index in indices) for name, indices in RANGES.items()}
        return {name: indices or tuple(playable) for name, indices in playable_of.items() if indices or name != "rest"}

    def config(self, index: int) -> Config:
        """The task of an id. Raises TaskNotFound: there is none, or it cannot be played here, and why."""
        if index not in self._configs:
            raise TaskNotFound(f"webarena_{index}: {self.left_out.get(index, 'the files have no such task')}")
        return self._configs[index]

    def storage(self, config: Config) -> Mapping[str, Any] | None:
        """The cookies and local storage that a task starts with."""
        login = self._login(config)
        return None if login is None else json_object(login)

    def _login(self, config: Config) -> Path | None:
        return None if self._logins is None or not config.login else self._logins / config.login


def _addresses(sites: str | Mapping[str, str]) -> dict[str, str]:
    entries = (
        dict(part.partition("=")[::2] for part in sites.split(",") if part.strip()) if isinstance(sites, str) else sites
    )
    addresses = {name.strip(): url.strip() for name, url in entries.items()}
    for name, url in addresses.items():
        parts = urlsplit(url)
        if name not in SITES:
            raise ValueError(f"sites: {name!r} is none of {', '.join(SITES)}")
        if parts.scheme not in ("http", "https") or not parts.netloc or json.dumps(url) != f'"{url}"':
            raise ValueError(f"sites: {name}={url!r} is no address; give one such as http://127.0.0.1:7770")
    return addresses


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(host.strip().lower() for host in text.split(",") if host.strip())
    for host in hosts:
        if not re.fullmatch(r"[\w.-]+(:\d+)?", host):
            raise ValueError(f"hosts: {host!r} is no host; give some such as 10.0.0.2:5000,tiles.example")
    return hosts


def _entries(path: Path) -> list[tuple[str, Any]]:
    """The tasks, each with the place where it was found."""
    if not path.exists():
        raise ValueError(
            f"tasks={path} does not exist; give WebArena's test.raw.json, or the folder of its config_files"
        )
    if path.is_dir():
        files = sorted((file for file in path.glob("*.json") if file.stem.isdecimal()), key=lambda file: int(file.stem))
        return [(str(file), json_object(file)) for file in files]
    return [(f"{path}, entry {number}", entry) for number, entry in enumerate(json_list(path, lone=True))]
