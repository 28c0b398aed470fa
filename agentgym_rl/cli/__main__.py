"""``python -m agentgym_rl.cli``."""

from agentgym_rl.cli import main

main()
