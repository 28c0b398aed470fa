"""Every page at two widths, light and dark, in a real browser: nothing cut or overlapping, contrast, keyboard order."""

import sys
import threading
from pathlib import Path

import pytest
from made_runs import unfinish, write_run
from test_learning import metrics
from test_timeline import episode, turn
from viewer_episodes import made, run_folder

sys.path.insert(0, str(Path(__file__).parents[1]))
from pages import problems, tabbed

from agentgym_rl.data import episode_store
from agentgym_rl.data.episode import Ending
from agentgym_rl.data.episode_store import EpisodeStore
from agentgym_rl.eval.comparison.compare import compare
from agentgym_rl.eval.comparison.page import write_page
from agentgym_rl.eval.comparison.runs import read
from agentgym_rl.eval.timeline import write
from agentgym_rl.eval.training.page import page as training_page
from agentgym_rl.eval.viewer.server import Viewer

LONG = "a-run-with-a-name-that-is-longer-than-any-window-of-a-phone-can-show"
CONTROLS = "#top > *, #filters select, .title > button, .either button, .tools .chip, .tools .choice, .switch, .token"


def learnt(root):
    """Two algorithms, two seeds each, and a run that goes on, with bounds."""
    for algorithm, gain in (("grpo", 0.2), ("agentevol", 0.4)):
        for seed in (0, 1):
            write_run(
                root / f"{algorithm}{seed}", algorithm=algorithm, seed=seed, episodes=1500,
                bounds={"random": 0.1, "oracle": 1.0},
                stages={"bc": 0.1 + 0.05 * seed, algorithm: 0.1 + gain + 0.01 * seed, "control": 0.2},
                metrics=[
                    {key.replace("grpo", algorithm): value for key, value in row.items()}
                    for row in metrics([0.2 + 0.02 * step for step in range(15)], max_turns=[4] * 9 + [8] * 6)
                ],
            )  # fmt: skip
    going = write_run(root / LONG, algorithm="rloo", stages={"bc": 0.1, "rloo": 0.2})
    (going / "metrics.jsonl").write_text('{"step": 6, "stage/rloo": 1, "run/episodes": 9, "run/wall_s": 1.0}\n')
    unfinish(going, "rloo")
    return compare([read(folder) for folder in sorted(root.iterdir())])


def trained(folder):
    """The training page of the runs that are compared, beside them."""
    place = folder / "training.html"
    place.write_text(training_page(sorted((folder / "runs").iterdir()), {}))
    return place


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    run = run_folder(folder / LONG, steps=range(30), tasks=6)
    ended = [made(number, ending=ending, success=False, step=3) for number, ending in enumerate(Ending)]
    for stage in ("untrained", "bc", "agentevol_round1", "agentevol_round2", "control"):
        tags = [
            {"tags": {"panel": panel, "decoding": "sampled"}}
            for panel in ("unseen goals", "new variants", "validation")
        ]
        evaluated = [
            made(number, env=env, **tag) for env in ("counter", "textcraft") for tag in tags for number in range(5)
        ]
        episode_store.write(run / "episodes" / f"val_{stage}_step000040.parquet", evaluated)
    episode_store.write(run / "episodes" / "step000031.parquet", ended)
    viewer = Viewer(EpisodeStore(run))
    threading.Thread(target=viewer.serve_forever, daemon=True).start()
    lanes = [episode(f"maze_{number}", turns=[turn(0.6 + number)]) for number in range(40)]
    yield {
        "overview": viewer.url,
        "narrowed": f"{viewer.url}#/list?result=failed&step=3",
        "episode": f"{viewer.url}#/episode/step000003/3",
        "task": f"{viewer.url}#/task/counter_1",
        "comparison": write_page(learnt(folder / "runs"), folder / "compare.html").as_uri(),
        "training": trained(folder).as_uri(),
        "timeline": write(folder / "x.html", LONG, lanes).as_uri(),
    }
    viewer.shutdown()
    viewer.server_close()


READY = {"episode": ".turn", "task": ".beside", "comparison": ".chart", "training": ".chart", "timeline": ".chart"}


def opened(addresses, browser, name, width=1440):
    page = browser.new_page(viewport={"width": width, "height": 900}, bypass_csp=True)
    page.set_default_timeout(60_000)
    page.goto(addresses[name])
    page.locator(READY.get(name, ".row, .half .chart")).first.wait_for(state="attached")
    return page


@pytest.mark.parametrize("name", ["overview", "narrowed", "episode", "task", "comparison", "training", "timeline"])
def test_a_page_is_whole_and_readable(addresses, browser, name):
    page = opened(addresses, browser, name)
    assert problems(page, CONTROLS) == {}
    page.close()


def test_the_first_screen_of_a_phone_answers_the_question(addresses, browser):
    page = opened(addresses, browser, "overview", 390)
    for part in (".half:not(.failing):not(.evaluated)", ".half.failing:not(.evaluated)"):
        box = page.locator(f"{part} .chart").bounding_box()
        assert box["y"] + box["height"] < 900
    page.close()


def test_the_tab_key_follows_the_page(addresses, browser):
    page = opened(addresses, browser, "overview")
    order = [
        "theme",
        "keys",
        "f-task",
        "f-said",
        "f-env",
        "f-result",
        "f-ending",
        "f-panel",
        "f-step",
        "f-order",
        "f-down",
        "f-single",
        "list",
    ]
    assert tabbed(page, 13) == order
    assert tabbed(page, 2) == ["success", "reward"]
    page.close()
    page = opened(addresses, browser, "comparison")
    assert tabbed(page, 3) == ["Skip to the results", "Environments", "Curves"]
    page.close()
