"""Writing a model to disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Inside, a model is written.

    Raises:
        OSError: it cannot be, as on a full disk; safetensors and shutil have errors of their own for that.
    """
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, shutil.Error) as error:
        why = error.args[0][0][2] if isinstance(error, shutil.Error) else error
        raise OSError(f"{folder} cannot be written: {why}") from error
