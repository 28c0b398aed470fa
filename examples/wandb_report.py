"""Build a W&B report of uploaded runs: success on panels, training episodes, shares and horizons, episodes as tables.

    agentgym-rl sync 'runs/demo-*'
    python examples/wandb_report.py 'runs/demo-*' --entity my-team

Runs of a group and algorithm are averaged; bands reach from the least to the greatest seed.
"""

import argparse
import sys

from agentgym_rl.cli.sync import check, server, starts
from agentgym_rl.eval.comparison.runs import Run, read_all

try:
    import wandb
    import wandb_workspaces.reports.v2 as wr
    from wandb_workspaces.expr import And, Metric
except ModuleNotFoundError as error:
    sys.exit(f"Error: {error.name} is not installed; pip install 'agentgym-rl[train,report]'")

GROUPS = ["Group", "JobType"]


def names(runs: list[Run]) -> dict[str, list[str]]:
    """Metrics of each section of the report that the runs have logged."""
    logged = {name: None for run in runs for row in run.metrics for name in row}
    ends = {
        "Panels": ("val/", ("/success",)),
        "Training episodes": ("env/", ("/success", "/turns")),
        "Mixture": ("env/", ("/share",)),
        "Turn limit": ("env/", ("/max_turns",)),
    }
    return {
        title: sorted(name for name in logged if name.startswith(start) and name.endswith(last))
        for title, (start, last) in ends.items()
    }


def build(runs: list[Run], project: str, entity: str) -> wr.Report:
    """The report; nothing is sent before ``save``."""
    filters = And(Metric("Name").isin([run.name for run in runs]))
    runset = wr.Runset(entity=entity, project=project, groupby=GROUPS, filters=filters)
    blocks: list[object] = [wr.TableOfContents()]
    for title, metrics in names(runs).items():
        plots = [
            wr.LinePlot(
                title=metric, x="run/episodes", y=[metric], title_x="training episodes", groupby_aggfunc="mean",
                groupby_rangefunc="minmax",
            )
            for metric in metrics
        ]  # fmt: skip
        if plots:
            blocks += [wr.H1(title), wr.PanelGrid(runsets=[runset], panels=plots)]
    panels = sorted({f"val/{panel}/{env}/episodes" for run in runs for env, panel in run.digests})
    tables = [wr.WeavePanelSummaryTable(table_name=name) for name in panels]
    blocks += [wr.H1("Validation episodes"), wr.PanelGrid(runsets=[runset], panels=tables)]
    algorithms = ", ".join(sorted({run.algorithm for run in runs}))
    return wr.Report(
        project=project, entity=entity, title=f"{algorithms}: {len(runs)} runs", blocks=blocks, width="fluid"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of finished runs, folders of them, or globs")
    parser.add_argument("--entity", help="user or team; left out, your default one")
    parser.add_argument("--project", help="left out, the runs' own")
    given = parser.parse_args()
    try:
        runs, begun, damaged = read_all(given.runs)
        for left_out in (*begun, *damaged):
            print(f"left out: {left_out}", file=sys.stderr)
        projects = {str(run.config["logger.project"]) for run in runs}
        if given.project is None and len(projects) > 1:
            raise ValueError(f"the runs are in several projects ({', '.join(sorted(projects))}); choose with --project")
        waiting = [run.name for run in runs for start in starts(run.folder) if start.offline and not start.uploaded]
        if waiting:
            raise ValueError(f"not uploaded: {', '.join(waiting)}; agentgym-rl sync uploads them")
        check(server())
        report = build(runs, given.project or projects.pop(), given.entity or wandb.Api().default_entity)
        report.save()
    except (ValueError, FileNotFoundError, wandb.Error) as error:
        sys.exit(f"Error: {error}")
    print(report.url)


if __name__ == "__main__":
    main()
