"""How runs train: the metrics of all of them over each other, read from their folders."""
