"""The commands of single environments, such as ``python -m agentgym_rl.envs.searchqa``."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from agentgym_rl.envs.core import EnvError
from agentgym_rl.envs.extras import needs


def run(parser: ArgumentParser, extra: str, work: Callable[[Namespace], str]) -> None:
    """Parse the command line, do the work and print what it returns; what is wrong ends the command with one line.

    Args:
        extra: the pip extra that the work needs.
    """
    arguments = parser.parse_args()
    try:
        with needs(parser.prog, extra):
            print(work(arguments))
    except (EnvError, ValueError, OSError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        parser.exit(130, "stopped; the same command begins again\n")
