"""Train language-model agents in text environments, on verl."""
