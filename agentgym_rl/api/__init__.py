"""What a library caller uses: evaluation, runs and training in one call each. ``import agentgym_rl as ag`` shows it."""
