"""GRPO on the real engine through agents that people have, all in one run. Selected with ``-m e2e``."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_e2e import metrics, summary, train

from agentgym_rl.data import episode_store

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

AGENTS = Path(__file__).parents[1] / "harnesses"
PARTS = {
    "textcraft-client": f"{{command: python {AGENTS}/openai_agent.py}}",
    "textcraft-library": f"{{command: python {AGENTS}/smolagents_agent.py}}",
    "textcraft-shell": f"{{command: sh {AGENTS}/curl_agent.sh, grade_file: reward.txt}}",
}


def test_harnesses_are_learned_from_on_two_workers_with_a_vllm_replica_each(tmp_path: Path) -> None:
    """OpenAI's client, smolagents and curl beside an environment without a harness: two steps, in which what is learned
    is what was sampled, token for token: training workers replay the log-probabilities that vLLM gave."""
    pytest.importorskip("smolagents")
    recipes = tmp_path / "recipes" / "env"
    recipes.mkdir(parents=True)
    parts = (
        f"{name}: {{split: train_variants, max_turns: 3, harness: {harness}, panels: {{test: {{split: test, n: 1}}}}}}"
        for name, harness in PARTS.items()
    )
    (recipes / "harnesses.yaml").write_text("\n".join(["# @package envs", *parts, ""]))
    folder = tmp_path / "run"
    train(folder, "--recipes", str(recipes.parent), "+env=harnesses", "engine.workers=2", "algorithm=grpo",
          "algorithm.steps=2", "algorithm.tasks_per_step=4", "algorithm.samples_per_task=2",
          "algorithm.mini_batch_tasks=4", "model.prompt_tokens=1024", "model.response_tokens=1024",
          "run.evaluate_untrained=false", "engine.verify_sync=always")  # fmt: skip
    rows = [row for row in metrics(folder) if "actor/pg_loss" in row]
    assert len(rows) == 2
    for row in rows:
        assert row["training/rollout_probs_diff_max"] < 5e-3
        assert row["sync/log_prob_difference"] < 1e-4
        assert row["actor/grad_norm"] > 0 and row["rollout/staleness"] == 0
    found = summary(folder)
    assert found["errors"] == {}
    files = sorted({file.name.partition(".")[0] for file in (folder / "episodes").glob("step*")})
    played = [episode for name in files for episode in episode_store.read(folder / "episodes" / f"{name}.parquet")]
    trained = [episode for episode in played if episode.env in PARTS]
    assert all(episode.ending.counts for episode in trained)
    for name in PARTS:
        own = [episode for episode in trained if episode.env == name]
        assert len(own) == 4 and len({episode.reward for episode in own}) > 1
        assert all(turn.pieces and len(turn.pieces) == len(turn.log_probs) for episode in own for turn in episode.turns)
        result = found["stages"][-1]["panels"]["test"][name]["greedy"]
        assert (result["n"], result["error_rate"]) == (1, 0)
    assert sorted(path.name for path in (folder / "checkpoints/global_step_3/actor").glob("model_*")) == [
        "model_world_size_2_rank_0.pt",
        "model_world_size_2_rank_1.pt",
    ]
