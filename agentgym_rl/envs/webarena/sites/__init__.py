"""The built-in sites: a shop, a forum, a wiki and an issue tracker on SQLite, answered within the browser."""
