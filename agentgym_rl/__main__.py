"""``python -m agentgym_rl``."""

from agentgym_rl.cli import main

if __name__ == "__main__":  # not in the processes that vLLM spawns
    main()
