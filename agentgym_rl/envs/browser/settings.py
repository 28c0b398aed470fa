"""How a context of the browser is made and used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_rl.envs.browser.assets import Asked, Asset


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a context is made and used."""

    hosts: tuple[str, ...] = ()
    """``host`` or ``host:port`` that may be opened; pages reach them unless there is ``serve``. All others are
    refused. A session is over when one of them cannot be reached."""
    serve: Callable[[Asked], Asset | None] | None = None
    """Answers every request, without any network; None refuses it. Chromium asks nobody after a redirect by status: to
    redirect, send the header ``Refresh``."""
    script: str = ""
    """Runs in every document before its own."""
    settle: str = ""
    """JavaScript that runs after an action, in place of waiting until the page is quiet."""
    width: int = 1280
    height: int = 720
    """Pixels of the viewport."""
    whole_page: bool = False
    """Whether all of the page is listed, not only what the viewport shows."""
    figures: bool = False
    """Whether shapes and unnamed elements that can be clicked are listed, too."""
    storage: Mapping[str, Any] | None = None
    """Cookies and local storage, Playwright's ``storage_state``: a login."""
    trace: Path | None = None
    """File to which all requests and answers are written as HAR, when the session is closed."""
    tabs: int = 8
    """Most tabs; further ones are closed as they open."""
    quiet_ms: float = 50.0
    """A page has settled when it has loaded and nothing in it has changed for so long."""
    settle_s: float = 5.0
    """Most seconds of waiting for that; the page is then shown as it is."""
    patience: float = 30.0
    """Seconds without an answer after which a page counts as hung."""
