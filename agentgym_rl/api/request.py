"""The keys of an evaluation: texts or values read into a typed dataclass by OmegaConf."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from agentgym_rl.engine.recipe.migration import KEYS
from agentgym_rl.engine.recipe.schema import refused
from agentgym_rl.envs.actions import ActionFormat
from agentgym_rl.rollout.runner import check_share
from agentgym_rl.rollout.settings import Style

R = TypeVar("R", bound="Rollouts")

_SUCH_AS = {"panel": "textcraft:test:50", "policy": "oracle", "writer": "openai:gpt-4o-mini@https://api.openai.com/v1"}
_LISTS = ("price", "writer_price", "without")


@dataclass(kw_only=True)
class Rollouts:
    """With which policy episodes run, and how.

    Rules that are left out are those of a run's weights or panels, or the environments' own.
    """

    policy: str = MISSING
    temperature: float = 0.0
    seed: int = 0
    max_turns: int | None = None
    style: Style | None = None
    action_format: ActionFormat | None = None
    max_new_tokens: int | None = None
    invalid_limit: int | None = None
    prompt_tokens: int | None = None
    response_tokens: int | None = None
    retries: int | None = None
    min_counted: float = 0.95
    concurrency: int | None = None
    backend: str = "auto"
    price: list[float] = field(default_factory=lambda: [0.0, 0.0])
    max_cost: float | None = None
    per_minute: float | None = None
    without: list[str] = field(default_factory=list)
    """Parameters that are not sent to an API."""
    out: Path | None = None
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Options of environment classes, by environment."""

    def __post_init__(self) -> None:
        if len(self.price) != 2:
            raise ValueError("price= takes two numbers, like price=0.15,0.60")
        check_share(self.min_counted)
        for key, value in {"prompt_tokens": self.prompt_tokens, "response_tokens": self.response_tokens}.items():
            if value is not None and value < 1:
                raise ValueError(f"{key}={value}: give at least 1")
        for key, value in asdict(self).items():
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, float) and not isfinite(number):
                    raise ValueError(f"{key}={number}: give a finite number")
        if self.temperature < 0:
            raise ValueError(f"temperature={self.temperature:g} is below 0; give 0, which is greedy, or more")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed} is below 0; give 0 or more")
        for key, value in vars(self).items():
            if isinstance(value, Path):
                setattr(self, key, value.expanduser())

    def given(self, *keys: str) -> list[str]:
        """Those of the keys that do not have the value of one that is left out."""
        left_out = type(self)()
        return [key for key in keys if getattr(self, key) != getattr(left_out, key)]


@dataclass(kw_only=True)
class Request(Rollouts):
    """Which tasks to run."""

    panel: str = MISSING
    samples: int = 1
    playbook: Path | None = None
    """Lessons that a model reads before the first observation."""
    exemplars: Path | None = None
    """Solved episodes, of which a model reads the ``nearest`` to its task."""
    nearest: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exemplars is None and self.nearest != Request.nearest:
            raise ValueError(f"nearest={self.nearest} has no effect without exemplars=")


@dataclass(kw_only=True)
class Writing(Rollouts):
    """Who writes about the episodes of the policy."""

    writer: str = MISSING
    writer_price: list[float] | None = None
    """By default that of the policy."""
    writer_per_minute: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.writer_price is not None and len(self.writer_price) != 2:
            raise ValueError("writer_price= takes two numbers, like writer_price=0.15,0.60")


@dataclass(kw_only=True)
class EvalRequest(Request):
    """What to evaluate."""

    harness: str | None = None
    """A program, or ``module:function``, that runs the episodes with the policy as its model."""


def read(arguments: list[str], kind: type[R] = EvalRequest) -> R:  # type: ignore[assignment]
    """The request that ``KEY=VALUE`` texts make. Names and paths are taken as they are, other values as YAML.

    Raises:
        ValueError: a text is not KEY=VALUE, a key is unknown, missing or given twice, or a value is of the wrong type.
    """
    config: DictConfig = OmegaConf.structured(kind)
    keys: set[str] = set()
    plain = {name for name, hint in get_type_hints(kind).items() if _is_text(hint)}
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"{text!r} is not KEY=VALUE; write it like panel=textcraft:test")
        _check(key, kind)
        if not value:
            raise ValueError(f"{key}= is empty; give a value, or leave it out")
        if key in keys:
            raise ValueError(f"{key}= is given twice")
        keys.add(key)
        if key in _LISTS and not value.startswith("["):
            text = f"{key}=[{value}]"
        as_it_is = key in plain and value != "null"
        with _in_words(f"{key}={value}"):
            config.merge_with({key: _literal(value)} if as_it_is else OmegaConf.from_dotlist([text]))
    return _whole(config, kind)


def of(values: Mapping[str, Any], kind: type[R] = EvalRequest) -> R:  # type: ignore[assignment]
    """The request that values make, also numbers of numpy; ``options`` is a mapping of environments to their options.

    Raises:
        ValueError: a key is unknown, or a value is of the wrong type.
    """
    config: DictConfig = OmegaConf.structured(kind)
    for key, value in values.items():
        if key != "options":
            _check(key, kind)
        plain = value.tolist() if hasattr(value, "tolist") else value
        with _in_words(f"{key}={plain!r}"):
            config.merge_with({key: _literal(plain)})
    return _whole(config, kind)


def _is_text(hint: Any) -> bool:
    """Whether a field is a text or a path, perhaps left out."""
    return bool({str, Path} & {*get_args(hint)} if isinstance(hint, UnionType) else hint in (str, Path))


def _literal(value: Any) -> Any:
    """A text in which OmegaConf finds nothing to interpolate; another value as it is."""
    return value.replace("${", r"\${") if isinstance(value, str) else value


@contextmanager
def _in_words(text: str) -> Iterator[None]:
    """Raises ValueError: inside, ``KEY=VALUE`` cannot be read."""
    try:
        yield
    except YAMLError as error:
        raise ValueError(f"{text} cannot be read; quote the value") from error
    except OmegaConfBaseException as error:
        raise ValueError(
            refused(str(error), text.partition("=")[0]) or f"{text}: {str(error).splitlines()[0]}"
        ) from error


def _whole(config: DictConfig, kind: type[R]) -> R:
    for name, example in _SUCH_AS.items():
        if name == "policy" and issubclass(kind, Writing):  # takes models only
            example = _SUCH_AS["writer"]
        if name in kind.__dataclass_fields__ and OmegaConf.is_missing(config, name):
            raise ValueError(f"{name}= is missing, such as {name}={example}")
    request: R = OmegaConf.to_object(config)  # type: ignore[assignment]
    return request


def _check(key: str, kind: type[Rollouts]) -> None:
    """Raises ValueError: the key is unknown; names the nearest one, and all."""
    first, names = [*_SUCH_AS], [field.name for field in fields(kind)]
    known = [*(name for name in first if name in names), *(name for name in names if name not in (*first, "options"))]
    known.append("options")
    root = key.partition(".")[0]
    if key in KEYS.eval:
        raise ValueError(f"{key} is AgentGym-RL's; here: {KEYS.eval[key]}")
    if root in known and (key.count(".") > 1 if root == "options" else root == key):
        return
    if root == "options":
        raise ValueError(f"{key!r} is not options.ENV.KEY")
    near = get_close_matches(root, known, 1)
    meant = f"; did you mean {near[0]}=?" if near else ""
    raise ValueError(f"unknown key {key!r}{meant}; known are {', '.join(known[:-1])}, options.ENV.KEY")
