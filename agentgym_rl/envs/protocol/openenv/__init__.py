"""OpenEnv's protocol (0.10) and its Task API: wire, server (extra ``serve``) and client (extra ``remote``).

Written from https://github.com/huggingface/OpenEnv; nothing of its package is needed.
"""
