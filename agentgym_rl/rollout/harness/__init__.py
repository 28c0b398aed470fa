"""Episodes that a program runs: a harness, which asks the model through the gateway and has its own environment."""
