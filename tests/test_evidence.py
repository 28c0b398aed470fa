"""The page of benchmarks/evidence.py, from made-up results."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("verl")

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import evidence  # noqa: E402

from agentgym_rl.engine import recipes, tasks  # noqa: E402


def row(arm, seed, textcraft, babyai, maze, control=None):
    def worlds(numbers):
        return {world: [number, 100] for world, number in zip(evidence.WORLDS, numbers, strict=True)}

    return {
        "arm": arm, "seed": seed, "success": worlds((textcraft, babyai, maze)), "episodes": 960, "minutes": 2.0,
        "control": None if control is None else worlds((control,) * 3),
    }  # fmt: skip


ROWS = [
    row("bc", 0, 0.1, 0.4, 0.7),
    row("bc", 1, 0.2, 0.4, 0.9),
    row("evol", 0, 0.3, 0.5, 0.7, control=0.4),
    row("evol", 1, 0.4, 0.5, 0.9, control=0.6),
    row("evol_textcraft", 0, 0.2, 0.0, 0.0),
    row("evol_babyai", 0, 0.0, 0.6, 0.0),
    row("evol_maze", 0, 0.0, 0.0, 0.7),
]


def test_values_and_averages():
    assert evidence.values(ROWS, "bc", "textcraft") == {0: 10.0, 1: 20.0}
    assert evidence.averages(ROWS, "bc") == pytest.approx({0: 40.0, 1: 50.0})
    assert evidence.averages(ROWS, "evol/control") == pytest.approx({0: 40.0, 1: 60.0})
    assert evidence.averages(ROWS, "bc/control") == {}
    # alone: each world from its own arm, on the seeds that have all three
    assert evidence.averages(ROWS, evidence.SINGLE) == pytest.approx({0: 50.0})


def test_cells_and_verdicts():
    # mean 11, sd sqrt(2), half width 12.706 * 1 = 12.706
    assert evidence.cell([10.0, 12.0]) == "11.0 [-1.7, 23.7]"
    assert evidence.cell([10.0], signed=True) == "+10.0"
    differences = ([9.0, 10.0, 9.5], [-9.0, -10.0, -9.5], [-1.0, 1.0, 0.0], [5.0, 5.1])
    assert [evidence.verdict(found) for found in differences] == [
        "holds", "reversed", "not shown", "too few seeds",
    ]  # fmt: skip


def test_the_page_keeps_what_stands_around_its_tables():
    text = (ROOT / "docs" / "evidence.md").read_text().replace("## Orderings", "## Orderings\n\nReasons.")
    renewed = evidence.page(text, ROWS)
    assert "Reasons." in renewed
    assert "| evol | 2 | 35.0 [-28.5, 98.5] | 50.0 [50.0, 50.0] |" in renewed
    # +20, +10, 0 on both seeds
    assert "| AgentEvol > BC | +20.0 [+20.0, +20.0] | +10.0 [+10.0, +10.0] | +0.0 [+0.0, +0.0] |" in renewed
    assert "| 2 of 2 | 0.500 | too few seeds |" in renewed
    assert evidence.page(renewed, ROWS) == renewed
    with pytest.raises(ValueError, match="no block '<!-- table arms -->'"):
        evidence.page("nothing here", ROWS)


@pytest.mark.parametrize("arm", evidence.ARMS)
def test_every_arm_composes_with_the_same_number_of_episodes(arm):
    config = recipes.load(["experiment=ablation", *evidence.ARMS[arm]])
    algorithm = config.algorithm
    if algorithm.name == "bc":
        return
    episodes = sum(
        draw.samples
        for step in range(algorithm.steps)
        for draw in tasks.mixture(config).draw(step, algorithm.tasks, algorithm.samples)
    )
    assert episodes == (960 // 3 if arm in evidence.SINGLE.values() else 960)
    assert config.run.cache == "runs/cloned"


def test_results_belong_to_their_settings_wherever_they_were_run():
    def of(arm, folder="a", seed=0):
        return evidence.settings(evidence.composed(arm, seed, Path(folder)))

    assert of("grpo") == of("grpo", folder="b")
    assert len({of("grpo"), of("rloo"), of("grpo", seed=1)}) == 3


def test_the_page_in_the_repository_is_that_of_the_raw_results():
    text = evidence.PAGE.read_text()
    assert evidence.page(text, evidence.results()) == text
