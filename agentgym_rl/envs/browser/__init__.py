"""A base for environments in a browser: contexts of one Chromium, the page as text, WebArena's commands.

Only :mod:`.chromium` and :mod:`.session` need Playwright.
"""
