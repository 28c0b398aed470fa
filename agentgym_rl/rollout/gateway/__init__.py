"""An OpenAI-compatible gateway: any harness talks to the model, and the tokens of each conversation are kept exactly.

A harness is a program that asks a chat API; it keeps its conversation itself and may edit it. The gateway gives it a
session with a key. What the model samples in a session is kept as it was sampled, and new messages of the harness are
rendered behind it (:mod:`.tokens`). Where a request does not continue what was said, the session forks (:mod:`.tree`).
"""
