"""Files of recipes in a user's folders, as Hydra reads them; what is wrong with one is said with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.plugins.config_source import ConfigResult
from omegaconf import OmegaConf

from agentgym_rl.engine.recipe.schema import RecipeError

FIRST_LINES = {"experiment": "# @package _global_", "env": "# @package envs", "tuned": "# @package _global_"}
"""Without such a line the keys of a file in these groups would not be those of a run."""


class RecipeFiles(FileConfigSource):
    """A folder of recipes; a file may begin with a byte order mark."""

    @staticmethod
    def scheme() -> str:
        return "recipes"

    def load_config(self, config_path: str) -> ConfigResult:
        """The content of a file.

        Raises:
            RecipeError: it is not UTF-8, not YAML, or lacks its first line.
        """
        path = Path(self.path, self._normalize_file_name(config_path))
        try:
            text = path.read_text(encoding="utf-8-sig")
            content: Any = OmegaConf.create(text)
        except UnicodeDecodeError as error:
            raise RecipeError(f"{path}: byte {error.start} is not UTF-8; save the file in that encoding") from error
        except yaml.MarkedYAMLError as error:
            at = error.problem_mark or error.context_mark
            where = f"{path}, line {at.line + 1}" if at else f"{path}"
            raise RecipeError(f"{where}: {error.problem or error.context}; correct the line") from error
        except yaml.YAMLError as error:  # a control character
            raise RecipeError(f"{path}: {' '.join(str(error).split())}; take it out") from error
        header = self._get_header_dict(text)
        group = config_path.partition("/")[0]
        if group in FIRST_LINES and header.get("package") is None:
            raise RecipeError(f"{path}: the first line must be {FIRST_LINES[group]}")
        return ConfigResult(self.provider, f"{self.scheme()}://{self.path}", content, header)
