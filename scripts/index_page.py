"""What a package index shows: the README with links that lead somewhere, and the project's addresses.

Hatchling calls this when it builds. ``REPOSITORY`` is the address where the code is hosted, such as
``https://github.com/OWNER/agentgym-rl``; without it, as in an installation from a clone, the README stays as it is and
the package names no addresses.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\[\]]*(?:\[[^\[\]]*\])?[^\[\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
"""A link or picture of Markdown with a relative target: its mark, text and target."""


def absolute(text: str, repository: str, revision: str) -> str:
    """Markdown whose relative links lead to the repository's files at a revision, and pictures to their bytes."""

    def leading(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        return f"{match[1]}[{match[2]}]({repository}/{kind}/{revision}/{match[3]})"

    return LINK.sub(leading, text)


class CustomMetadataHook(MetadataHookInterface):
    """Sets ``readme`` and ``urls``, which ``pyproject.toml`` calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("REPOSITORY", "").removesuffix("/").removesuffix(".git")
        metadata["urls"] = {}
        if repository:
            revision = f"v{metadata['version']}"
            text = absolute(text, repository, revision)
            metadata["urls"] = {
                "Repository": repository,
                "Documentation": f"{repository}/blob/{revision}/docs/index.md",
                "Changelog": f"{repository}/blob/{revision}/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
