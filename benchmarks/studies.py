"""What ``benchmarks/evidence.py`` runs: arms of one recipe, and what is claimed of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"

Side = str | Mapping[str, str]
"""An arm, ``arm/control``, or an arm for each column."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """One claim: ``better`` has more success than ``worse``."""

    claim: str
    better: Side
    worse: Side


@dataclass(frozen=True, slots=True)
class Measure:
    """What a run logs at each step of training; the page shows the mean over its steps."""

    metric: str
    shown: Callable[[float], float] = float
    """The number that the page shows, of that mean."""
    steps: slice = field(default_factory=lambda: slice(None))
    """Those of the mean, among the steps that log it."""


@dataclass(frozen=True, slots=True)
class Follows:
    """A validation panel of each environment, which older rows did not have: for the design's seeds alone."""

    n: int
    """Tasks, from split ``val_variants``."""
    every: Mapping[str, int]
    """``run.eval_every`` of arms; AgentEvol evaluates after each round."""


@dataclass(frozen=True, slots=True)
class Study:
    """Arms that differ in some settings of a recipe, run with several seeds."""

    recipe: str
    prefix: str
    """Of the runs' names."""
    columns: Mapping[str, tuple[str, str]]
    """Where success is measured: a name, and the label and environment of its panel."""
    arms: Mapping[str, Sequence[str]]
    """Overrides of the recipe. A control is a stage of its arm: as many updates on expert data alone."""
    orderings: Mapping[str, Sequence[Ordering]]
    """By table of the page."""
    raw: Path
    page: Path
    watched: tuple[str, ...] = ()
    """Label and environments of the panel whose success during training is kept."""
    follows: Follows | None = None
    """Where the recipe has no such panel."""
    curves: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Pictures of it: a name in docs/images, and arms."""
    equal: str | None = None
    """The page's table of success at equal budgets, of the arms that have curves."""
    table: str = "arms"
    """The page's table of success and cost of every arm."""
    averaged: frozenset[str] = frozenset()
    """The tables of orderings that show the average over columns alone."""
    after: Mapping[str, str] = field(default_factory=dict)
    """Arms that begin with the last weights of another."""
    taught: Mapping[str, str] = field(default_factory=dict)
    """Arms whose ``algorithm.teacher`` is another one's run."""
    samples: Mapping[str, int] = field(default_factory=dict)
    """Episodes a task that the recipe's panel of a column has, where they are several."""
    measures: Mapping[str, Measure] = field(default_factory=dict)
    """Further columns of the page: of arms, and of their paired differences, with intervals over seeds."""


def percent(share: float) -> float:
    return 100 * share


# which algorithm

DEMONSTRATIONS = {"textcraft": 48, "babyai": 48, "maze": 16}
"""Demonstrations in the recipe."""
EXPLORED = 480
"""Tasks a round of AgentEvol in the recipe."""


def only(env: str, envs: Iterable[str]) -> list[str]:
    """All training episodes for one of the environments."""
    return [f"envs.{other}.share=0" for other in envs if other != env]


def alone(env: str) -> list[str]:
    """As many rounds and episodes of a single environment as the joint run gives it."""
    tasks = EXPLORED // len(DEMONSTRATIONS)
    return [*only(env, DEMONSTRATIONS), f"algorithm.tasks_per_step={tasks}", "algorithm.steps=2"]


ABLATION: dict[str, Any] = {
    "recipe": "ablation", "columns": {env: ("new_variants", env) for env in DEMONSTRATIONS},
}  # fmt: skip
"""Recipe and panels of the studies on its three environments."""
DYNAMIC = ["mixture=dynamic", "mixture.smoothing=0.5"]
"""Shares of the environments that follow what there is to learn, where the recipe has equal ones."""

SINGLE = {env: f"evol_{env}" for env in DEMONSTRATIONS}
RL = ("grpo", "rloo", "reinforce_pp", "gigpo", "dpo", "ppo", "ppo_turn")

ALGORITHMS = Study(
    **ABLATION,
    prefix="evidence",
    arms={
        "bc": ["algorithm=bc"],
        "bc_large": [
            "algorithm=bc", "cloning.epochs=25",
            *(f"envs.{env}.demonstrations={2 * n}" for env, n in DEMONSTRATIONS.items()),
        ],
        "evol": ["algorithm=agentevol", "run.control=true"],
        "evol_dynamic": ["algorithm=agentevol", *DYNAMIC],
        **{arm: ["algorithm=agentevol", *alone(env)] for env, arm in SINGLE.items()},
        "grpo": ["algorithm=grpo", "run.control=true"],
        "rloo": ["algorithm=rloo"],
        "reinforce_pp": ["algorithm=reinforce_pp"],
        "gigpo": ["algorithm=gigpo"],
        "dpo": ["algorithm=dpo"],
        "ppo": ["algorithm=ppo"],
        "ppo_turn": ["algorithm=ppo", "algorithm.level=turn"],
    },
    orderings={
        "evolution": [
            Ordering("AgentEvol > BC", "evol", "bc"),
            Ordering("AgentEvol > its control", "evol", "evol/control"),
            Ordering("BC on twice the demonstrations > BC", "bc_large", "bc"),
            Ordering("AgentEvol > BC on twice the demonstrations", "evol", "bc_large"),
        ],
        "sampling": [
            Ordering("all environments together > each alone", "evol", SINGLE),
            Ordering("dynamic > uniform", "evol_dynamic", "evol"),
        ],
        "rl": [
            *(Ordering(f"{arm} > GRPO's control", arm, "grpo/control") for arm in RL),
            Ordering("AgentEvol > GRPO", "evol", "grpo"),
        ],
    },
    raw=HERE / "evidence.json",
    page=DOCS / "evidence.md",
    watched=("validation", *DEMONSTRATIONS),
    follows=Follows(60, {"grpo": 1}),
    curves={"algorithms": ["evol", "grpo"]},
    equal="equal",
    averaged=frozenset({"sampling", "rl"}),
)  # fmt: skip


# what `make demo` shows


def with_controls(table: str, evol: str) -> dict[str, Any]:
    """Arms of cloning, AgentEvol and GRPO, with the controls of both, and their orderings.

    Args:
        table: of the page's orderings.
        evol: the arm of AgentEvol, whose control the recipe has.
    """
    return {
        "arms": {"bc": ["algorithm=bc"], evol: ["algorithm=agentevol"], "grpo": ["algorithm=grpo", "run.control=true"]},
        "orderings": {
            table: [
                Ordering("AgentEvol > BC", evol, "bc"),
                Ordering("AgentEvol > its control", evol, f"{evol}/control"),
                Ordering("GRPO > BC", "grpo", "bc"),
                Ordering("GRPO > its control", "grpo", "grpo/control"),
                Ordering("AgentEvol > GRPO", evol, "grpo"),
            ]
        },
    }


DEMO = Study(
    **with_controls("demo", "evol"),
    recipe="demo",
    prefix="demo",
    columns={
        "textcraft": ("new_variants", "textcraft"),
        "unseen_goals": ("unseen_goals", "textcraft"),
        "maze": ("new_mazes", "maze"),
    },
    raw=HERE / "demo.json",
    page=DOCS / "quickstart.md",
    table="demo_arms",
)

# which credit for steps

CREDIT = Study(
    recipe="ablation",
    prefix="credit",
    columns={env: ("new_variants", env) for env in ("textcraft", "maze")},
    arms={
        arm: [f"algorithm={arm}", *(["envs.babyai.share=0"] if arm != "bc" else [])]
        for arm in ("bc", "grpo", "gigpo", "hgpo", "graphgpo", "pace", "istar")
    },
    orderings={
        "credit": [
            *(Ordering(f"{arm} > GRPO", arm, "grpo") for arm in ("gigpo", "hgpo", "graphgpo", "pace", "istar")),
            *(Ordering(f"{arm} > GiGPO", arm, "gigpo") for arm in ("hgpo", "graphgpo", "pace", "istar")),
        ]
    },
    raw=HERE / "credit.json",
    page=DOCS / "algorithms" / "gigpo.md",
    table="credit_arms",
    measures={
        "AUC of step rewards, steps 2 and 3, %": Measure("prm/step_auc", percent, slice(1, 3)),
        "steps 4 and 5, %": Measure("prm/step_auc", percent, slice(3, 5)),
    },
)
"""Step rewards are iStar's, which the mazes' oracle judges; in the first step nothing has learned them."""

# which horizon

HORIZONS = {
    "short": ["curriculum=fixed", "curriculum.rounds=[5]"],
    "long": ["curriculum=fixed", "curriculum.rounds=[20]"],
    "growing": ["curriculum=growing"],
}


def of_horizons(horizons: Mapping[str, Sequence[str]], name: str, recipe: str, **place: Any) -> Study:
    """AgentEvol with each of three horizons, ``short``, ``long`` and ``growing``, on mazes near and far.

    Args:
        name: of the page's table of claims, of the picture of learning curves, and of the raw results.
        place: further fields of the study.
    """
    return Study(
        recipe=recipe,
        prefix=recipe,
        columns={label: (label, "maze") for label in ("near", "middle", "far")},
        arms={"bc": ["algorithm=bc"], **{arm: ["algorithm=agentevol", *chosen] for arm, chosen in horizons.items()}},
        orderings={
            name: [
                *(Ordering(f"{arm} > BC", arm, "bc") for arm in horizons),
                Ordering("long > short", "long", "short"),
                Ordering("growing > short", "growing", "short"),
                Ordering("growing > long", "growing", "long"),
            ]
        },
        raw=HERE / f"{name}.json",
        watched=("validation", "maze"),
        curves={name: list(horizons)},
        **place,
    )


CURRICULUM = of_horizons(HORIZONS, "horizon", "horizon", page=DOCS / "curriculum.md")

# which mixture

PARTS = [
    f"maze-{part}"
    for part in ("near-corridor", "near-rooms", "middle-rooms", "middle-perfect", "far-rooms", "far-perfect")
]
"""The environments of the recipe."""
MIXTURES = {
    "uniform": ["mixture=uniform"],
    "dynamic": ["mixture=dynamic"],
    "oracle": ["mixture=fixed", *(f"envs.{part}.share={int('middle' in part)}" for part in PARTS)],
}
"""``oracle`` knows beforehand where the cloned policy solves some tasks and not others."""
SHARED = {"grpo": "grpo", "evol": "agentevol"}

MIXTURE = Study(
    recipe="parts",
    prefix="parts",
    columns={part.removeprefix("maze-"): ("new_mazes", part) for part in PARTS},
    arms={
        "bc": ["algorithm=bc"],
        **{
            f"{arm}_{name}": [f"algorithm={algorithm}", *chosen]
            for arm, algorithm in SHARED.items()
            for name, chosen in MIXTURES.items()
        },
    },
    orderings={
        "mixture": [
            ordering
            for arm in SHARED
            for ordering in (
                Ordering(f"{arm}: uniform > BC", f"{arm}_uniform", "bc"),
                Ordering(f"{arm}: dynamic > uniform", f"{arm}_dynamic", f"{arm}_uniform"),
                Ordering(f"{arm}: oracle > uniform", f"{arm}_oracle", f"{arm}_uniform"),
                Ordering(f"{arm}: oracle > dynamic", f"{arm}_oracle", f"{arm}_dynamic"),
            )
        ]
    },
    raw=HERE / "mixture.json",
    page=DOCS / "mixture.md",
    averaged=frozenset({"mixture"}),
    samples={"middle-rooms": 4, "middle-perfect": 4},
)

# a pretrained model

SMOLLM2: dict[str, Any] = {
    "recipe": "smollm2",
    "columns": {"unseen_goals": ("unseen_goals", "textcraft"), "new_mazes": ("new_mazes", "maze")},
    "samples": {"unseen_goals": 2, "new_mazes": 2},
}
"""Recipe and panels of the studies with that model."""

PRETRAINED = Study(
    **SMOLLM2,
    **with_controls("pretrained", "agentevol"),
    prefix="smollm2",
    raw=HERE / "pretrained.json",
    page=DOCS / "pretrained.md",
    watched=("validation", "textcraft"),
    curves={"pretrained": ["agentevol", "grpo"]},
    equal="pretrained_equal",
)

# a pretrained model, which horizon

PRETRAINED_HORIZONS = {
    "short": ["curriculum=fixed", "curriculum.rounds=[6]"],
    "long": ["curriculum=fixed", "curriculum.rounds=[20]"],
    "growing": ["curriculum.rounds=[6,12,20]"],
}

PRETRAINED_CURRICULUM = of_horizons(
    PRETRAINED_HORIZONS, "pretrained_horizon", "smollm2-horizon", page=DOCS / "pretrained.md", table="horizon_arms",
    samples={"near": 2, "middle": 2, "far": 2},
)  # fmt: skip

# what training in one environment does for the others

NEIGHBOURS = ["maze-near", "maze-far", "textcraft-shallow", "textcraft-deep"]
"""The environments of the recipe, two by two of a kind, the easier one first."""


def one_after_the_other(order: Sequence[str]) -> list[str]:
    """A quarter of the recipe's 20 steps for each environment."""
    return ["mixture=sequential", "mixture.steps=5", f"mixture.order=[{','.join(order)}]"]


ALONE = {env: f"on_{env}" for env in NEIGHBOURS}
SAME_KIND = {
    "maze-near": "on_maze-far", "maze-far": "on_maze-near",
    "textcraft-shallow": "on_textcraft-deep", "textcraft-deep": "on_textcraft-shallow",
}  # fmt: skip
OTHER_KIND = {
    "maze-near": "on_textcraft-shallow", "maze-far": "on_textcraft-deep",
    "textcraft-shallow": "on_maze-near", "textcraft-deep": "on_maze-far",
}  # fmt: skip
"""By environment, what trains on one that shares its kind, and on one that shares its place in the other kind."""

TRANSFER = Study(
    recipe="transfer",
    prefix="transfer",
    columns={env: ("new", env) for env in NEIGHBOURS},
    arms={
        "bc": ["algorithm=bc"],
        **{arm: only(env, NEIGHBOURS) for env, arm in ALONE.items()},
        "together": [],
        "easy_first": one_after_the_other(NEIGHBOURS),
        "hard_first": one_after_the_other(NEIGHBOURS[::-1]),
    },
    orderings={
        "transfer": [Ordering(f"{arm} > BC", arm, "bc") for arm in [*ALONE.values(), "together"]],
        "distance": [
            Ordering("its own episodes > BC", ALONE, "bc"),
            Ordering("episodes of the same kind > BC", SAME_KIND, "bc"),
            Ordering("episodes of the other kind > BC", OTHER_KIND, "bc"),
            Ordering("its own episodes > those of the same kind", ALONE, SAME_KIND),
            Ordering("episodes of the same kind > those of the other", SAME_KIND, OTHER_KIND),
        ],
        "sequence": [
            Ordering("all together > each alone", "together", ALONE),
            Ordering("all together > one after the other, easy first", "together", "easy_first"),
            Ordering("all together > one after the other, hard first", "together", "hard_first"),
            Ordering("easy first > hard first", "easy_first", "hard_first"),
        ],
    },
    raw=HERE / "transfer.json",
    page=DOCS / "transfer.md",
    averaged=frozenset({"sequence"}),
    samples=dict.fromkeys(NEIGHBOURS, 2),
)

# where groups begin

STARTS = Study(
    recipe="exit_maze",
    prefix="exit-maze",
    columns={"near": ("near", "maze-near"), "far": ("far", "maze-far")},
    arms={
        "bc": ["algorithm=bc"],
        "grpo": ["algorithm=grpo"],
        "exit": ["algorithm=exit"],
        "reverse": ["algorithm=exit", "algorithm.restarts={source: demonstrations, reverse_every: 1}"],
    },
    orderings={
        "starts": [
            Ordering("ExIt > GRPO", "exit", "grpo"),
            Ordering("GRPO > BC", "grpo", "bc"),
            Ordering("reverse curriculum > GRPO", "reverse", "grpo"),
            Ordering("ExIt > reverse curriculum", "exit", "reverse"),
        ]
    },
    raw=HERE / "starts.json",
    page=DOCS / "algorithms" / "exit.md",
    watched=("validation", "maze-far"),
    curves={"starts": ["grpo", "exit", "reverse"]},
    equal="starts_equal",
    measures={
        "groups with a gradient, %": Measure("diagnostics/gradient_share", percent),
        "of those that begin later, %": Measure("restarts/gradient_share", percent),
        "turns before these": Measure("restarts/prefix_turns"),
    },
)

# settings that follow the agent

FRONTIER = Study(
    recipe="frontier_maze",
    prefix="frontier-maze",
    columns={label: (label, "maze-corridor") for label in ("near", "middle", "far")},
    arms={
        "bc": ["algorithm=bc"],
        **{name: ["algorithm=grpo", f"mixture={name}"] for name in ("uniform", "dynamic", "frontier")},
    },
    orderings={
        "frontier": [
            Ordering("frontier > uniform", "frontier", "uniform"),
            Ordering("frontier > dynamic", "frontier", "dynamic"),
            Ordering("uniform > BC", "uniform", "bc"),
        ]
    },
    raw=HERE / "frontier.json",
    page=DOCS / "mixture.md",
    watched=("validation", "maze-corridor"),
    table="frontier_arms",
)

# what follows other actions than the expert's

EARLY = Study(
    **ABLATION,
    prefix="early-experience",
    arms={
        "bc": ["algorithm=bc"],
        "early": ["algorithm=early_experience", "cloning.epochs=25", "algorithm={epochs: 25, states: 3}"],
        "grpo": ["algorithm=grpo"],
        "early_grpo": ["algorithm=grpo", "cloning.epochs=0"],
    },
    after={"early_grpo": "early"},
    orderings={
        "early_experience": [
            Ordering("early experience > BC", "early", "bc"),
            Ordering("GRPO > BC", "grpo", "bc"),
            Ordering("GRPO after early experience > GRPO", "early_grpo", "grpo"),
            Ordering("GRPO after early experience > early experience", "early_grpo", "early"),
        ]
    },
    raw=HERE / "early_experience.json",
    page=DOCS / "algorithms" / "early_experience.md",
    measures={
        "next-state loss before, nats a token": Measure("ee/next_state_loss", steps=slice(1)),
        "after": Measure("ee/next_state_loss", steps=slice(-1, None)),
    },
)
"""A tiny model has no pretraining: it acts only after half of the cloning, which then goes on with what it observed."""

# what a teacher is worth

DISTILLATION = Study(
    **SMOLLM2,
    prefix="distillation",
    arms={
        "bc": ["algorithm=bc"],
        "teacher": ["algorithm=bc", "envs.textcraft.demonstrations=200"],
        "grpo": ["algorithm=grpo"],
        "distill": ["algorithm=distill", "algorithm={teacher: a run, hint: none}"],
        "own_plan": ["algorithm=distill", "algorithm.hint=plan"],
    },
    taught={"distill": "teacher"},
    orderings={
        "distillation": [
            Ordering("teacher > BC", "teacher", "bc"),
            Ordering("distillation > GRPO", "distill", "grpo"),
            Ordering("distillation > BC", "distill", "bc"),
            Ordering("teacher > distillation", "teacher", "distill"),
            Ordering("own plan > BC", "own_plan", "bc"),
        ]
    },
    raw=HERE / "distillation.json",
    page=DOCS / "algorithms" / "distill.md",
    watched=("validation", "textcraft"),
    table="distillation_arms",
)
"""The teacher is cloned from 200 demonstrations of TextCraft, the others from 48."""

# groups, turns and limits

CURATION = Study(  # groups are those that are learned from, with what the pool puts into them
    recipe="dart_maze",
    prefix="dart-maze",
    columns={"near": ("near", "maze-near"), "far": ("far", "maze-far")},
    arms={"bc": ["algorithm=bc"], "grpo": ["algorithm=grpo"], "dart": ["algorithm=dart"]},
    orderings={"curation": [Ordering("DART > GRPO", "dart", "grpo"), Ordering("GRPO > BC", "grpo", "bc")]},
    raw=HERE / "curation.json",
    page=DOCS / "algorithms" / "dart.md",
    watched=("validation", "maze-far"),
    curves={"curation": ["grpo", "dart"]},
    equal="curation_equal",
    measures={
        "turns an episode": Measure("env/maze-far/turns"),
        "dead groups, %": Measure("diagnostics/gradient_share", lambda share: 100 * (1 - share)),
    },
)

# failed episodes under the goals that they reached

RELABELLING = Study(
    **ABLATION,
    prefix="hindsight",
    arms={
        "bc": ["algorithm=bc"],
        "evol": ["algorithm=agentevol"],
        "evol_long": ["algorithm=agentevol", "algorithm.epochs=8"],
        "hindsight": ["algorithm=agentevol", "algorithm.hindsight.max_per_goal=1"],
    },
    orderings={
        "hindsight": [
            Ordering("hindsight > AgentEvol", "hindsight", "evol"),
            Ordering("hindsight > AgentEvol with twice the passes", "hindsight", "evol_long"),
            Ordering("AgentEvol > BC", "evol", "bc"),
        ]
    },
    raw=HERE / "hindsight.json",
    page=DOCS / "hindsight.md",
    measures={
        "TextCraft successes a round": Measure("agentevol/textcraft/kept"),
        "relabelled": Measure("hindsight/textcraft/kept"),
    },
)
"""A pass of ``hindsight`` has at most twice the trajectories of its demonstrations and successes, so that ``evol_long``
makes at least as many updates."""

# which piece of AgentEvol

EVOLUTION = [
    "algorithm=agentevol", "algorithm.restart_from=base", "algorithm.epochs=15", "algorithm.lr=4e-3",
    "algorithm.search.calls=16", "algorithm.hindsight.max_per_goal=1",
]  # fmt: skip
"""From the base weights a round needs about as many updates as the recipe's cloning makes."""
WHOLE = [*EVOLUTION, *DYNAMIC]
WITHOUT = {
    "filter": "algorithm.filter=false",
    "restart": "algorithm.restart_from=current",
    "accumulation": "algorithm.accumulate=false",
    "search": "algorithm.search.calls=0",
    "hindsight": "algorithm.hindsight.max_per_goal=0",
}

PIECES = Study(
    **ABLATION,
    prefix="pieces",
    arms={
        "bc": ["algorithm=bc"],
        "whole": WHOLE,
        **{f"no_{piece}": [*WHOLE, removed] for piece, removed in WITHOUT.items()},
        "no_dynamic": EVOLUTION,
    },
    orderings={
        "pieces": [
            Ordering("whole > BC", "whole", "bc"),
            *(Ordering(f"whole > without {piece}", "whole", f"no_{piece}") for piece in [*WITHOUT, "dynamic"]),
        ]
    },
    raw=HERE / "pieces.json",
    page=DOCS / "algorithms" / "agentevol.md",
    measures={"episodes kept, a round": Measure("agentevol/kept")},
)

STUDIES = {
    "demo": DEMO,
    "algorithms": ALGORITHMS,
    "pieces": PIECES,
    "credit": CREDIT,
    "curriculum": CURRICULUM,
    "mixture": MIXTURE,
    "pretrained": PRETRAINED,
    "pretrained_curriculum": PRETRAINED_CURRICULUM,
    "transfer": TRANSFER,
    "starts": STARTS,
    "early_experience": EARLY,
    "distillation": DISTILLATION,
    "curation": CURATION,
    "hindsight": RELABELLING,
    "frontier": FRONTIER,
}
