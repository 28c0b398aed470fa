"""Results and comparisons as tables for a terminal."""

from rich.markup import escape
from rich.table import Table

from agentgym_rl.eval.evaluation.comparison import Comparison, Difference
from agentgym_rl.eval.evaluation.result import Result
from agentgym_rl.eval.evaluation.scores import Measure, Score, macro


def tables(result: Result) -> list[Table]:
    """Figures by environment and difficulty, their mean, and pass@k where there are several samples."""
    return [_figures(result), *([_passes(result)] if result.samples > 1 else [])]


def comparison_tables(comparison: Comparison, first: str, second: str) -> list[Table]:
    """Differences with their test, and the tasks that changed sides."""
    first, second = escape(first), escape(second)
    table = Table(title=f"Success in %: {second} against {first}; {comparison.test}", title_justify="left")
    for name in ("environment", "n", first, second, "difference", "fail to pass", "pass to fail", "p"):
        table.add_column(name, justify="left" if name == "environment" else "right")
    for difference in comparison.differences:
        table.add_row(
            difference.env, str(difference.difference.n),
            f"{100 * difference.first:.1f}", f"{100 * difference.second:.1f}",
            _percent(difference.difference, "+"),
            str(len(difference.gained)), str(len(difference.lost)),
            f"{difference.p:.4f}" if difference.p >= 0.0001 else "< 0.0001",
        )  # fmt: skip
    return [table, *_flips([difference for difference in comparison.differences if difference.env != "all"])]


def _figures(result: Result) -> Table:
    plan = result.plan
    how = f"{result.samples} episode{'s' if result.samples > 1 else ''} a task"
    title = (
        f"{escape(plan['policy'])} on panel {result.digest}: {how}, temperature {plan['temperature']:g}, 95% intervals"
    )
    table = Table(title=title, title_justify="left")
    for name in ("environment", "tasks", "episodes", "success %", "reward", "turns", "errors %"):
        table.add_column(name, justify="left" if name == "environment" else "right")
    envs, levels = result.envs(), result.difficulties()
    for env, scores in envs.items():
        table.add_row(*_cells(env, scores, _n(scores)), style="bold")
        if len(levels[env]) > 1:
            for level, part in levels[env].items():
                table.add_row(*_cells(escape(f"  {level}"), part, _n(part)))
        table.add_section()
    if len(envs) > 1:
        n = sum(map(_n, envs.values()))
        table.add_row(*_cells(f"mean of {len(envs)} environments", macro(list(envs.values())), n), style="bold")
    return table


def _cells(name: str, score: Score, n: int) -> list[str]:
    """A row; ``n`` is the number of tasks that its means are over."""
    return [
        name, _share(n, score.tasks), str(score.episodes), _percent(score.success), measured(score.reward, 3),
        measured(score.turns, 1), _percent(score.error_rate),
    ]  # fmt: skip


def _share(n: int, tasks: int) -> str:
    return str(tasks) if n == tasks else f"{n} of {tasks}"


def _n(score: Score) -> int:
    """Tasks with an episode that counts."""
    return 0 if score.success is None else score.success.n


def _percent(measure: Measure | None, sign: str = "") -> str:
    return measured(measure, 1, 100, sign)


def measured(measure: Measure | None, digits: int, scale: float = 1, sign: str = "") -> str:
    """A mean with its 95% interval; ``-`` where no episode counts."""
    if measure is None:
        return "-"
    value, low, high = (f"{scale * value:{sign}.{digits}f}" for value in (measure.value, *measure.ci95))
    return f"{value} [{low}, {high}]"


def _passes(result: Result) -> Table:
    table = Table(
        title="pass@k: at least one of k episodes succeeds; pass^k: all of them do (in %)", title_justify="left"
    )
    table.add_column("environment")
    passes = result.passes()
    columns = list(dict.fromkeys((name, k) for by_name in passes.values() for name, ks in by_name.items() for k in ks))
    for name, k in columns:
        table.add_column(name.replace("k", str(k)), justify="right")
    tasks = {env: len(outcomes) for env, outcomes in result.by_env.items()}
    for env, by_name in passes.items():
        table.add_row(env, *(_over(by_name[name].get(k), tasks[env]) for name, k in columns))
    return table


def _over(measure: Measure | None, tasks: int) -> str:
    """A share in percent; with the number of tasks that it is over where these are not all."""
    note = "" if measure is None or measure.n == tasks else f" ({_share(measure.n, tasks)})"
    return _percent(measure) + note


def _flips(differences: list[Difference]) -> list[Table]:
    heads = ("environment", "fail to pass", "pass to fail")
    table = Table(*heads, title="Tasks that changed sides", title_justify="left")
    for difference in differences:
        table.add_row(difference.env, " ".join(difference.gained), " ".join(difference.lost))
    return [table] if any(difference.gained or difference.lost for difference in differences) else []
