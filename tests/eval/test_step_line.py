"""What a run says of a step."""

from agentgym_rl.eval.step_line import step_line


def unit(number, **metrics):
    spent = {"run/episodes": 16 * number, "run/tokens": 1600 * number, "run/wall_s": 10.0 * number}
    return {"step": number, "stage/grpo": number, "run/units": 400, **spent, **metrics}


LEARNT = {"rollout/gradient_groups": 0.625, "actor/entropy": 1.2345, "actor/ppo_kl": 0.00312}


def test_a_step_in_one_line():
    rows = [
        unit(1, **{"env/toy/success": 0.25, "env/toy/reward": 0.3}),
        unit(2, **{"env/toy/success": 0.35, "env/toy/reward": 0.5, "env/maze/success": 1.0, "env/maze/reward": 1.0}),
        {"step": 2, "stage/grpo": 2, "val/new/toy/success": 0.9, "run/episodes": 32, "run/tokens": 3200,
         "run/wall_s": 26},
        unit(3, **{"env/toy/success": 0.5, "env/toy/reward": 0.3, "env/maze/success": 0.5, "env/maze/reward": 0.5},
             **LEARNT),
    ]  # fmt: skip
    assert step_line(rows) == (
        "grpo 3 of 400  toy: success 50.0% (+20.0), reward 0.3 (-0.1)  maze: success 50.0% (-50.0), reward 0.5 (-0.5)  "
        "groups with a gradient 62%  entropy 1.23  KL 0.0031  length 100 tokens  400 tokens/s  1:06:10 left"
    )


def test_the_first_step_has_no_trend_and_no_time_left():
    first = unit(1, **{"env/toy/success": 0.25, "env/toy/reward": 0.3})
    assert step_line([first]) == "grpo 1 of 400  toy: success 25.0%, reward 0.3  length 100 tokens  160 tokens/s"


def test_the_trend_is_that_of_the_last_steps():
    rows = [unit(number, **{"env/toy/success": float(number > 1), "env/toy/reward": 0.0}) for number in range(1, 8)]
    assert "success 100.0% (+0.0)" in step_line(rows)


def test_an_epoch_of_cloning_has_a_loss():
    row = {"step": 1, "stage/bc": 2, "run/units": 2, "supervised/loss": 6.867, "run/episodes": 0, "run/tokens": 0,
           "run/wall_s": 5.0}  # fmt: skip
    assert step_line([row]) == "bc 2 of 2  loss 6.87"
