#!/usr/bin/env bash
# Runs the tests that need no engine with a Python of your choice, in a virtual environment of its own, .venv-light/VERSION.
# Arguments, if any, are those of pytest.
#
#   PYTHON   interpreter, 3.11 or newer   (default: python3)
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
VERSION=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
LIGHT=.venv-light/$VERSION

"$LIGHT/bin/python" -m pip --version >/dev/null 2>&1 || "$PYTHON" -m venv "$LIGHT"
"$LIGHT/bin/python" -m pip install -q --disable-pip-version-check -e '.[suite,gymnasium,dev]'
[ $# -gt 0 ] || set -- -n auto --dist loadfile
PATH="$PWD/$LIGHT/bin:$PATH" exec "$LIGHT/bin/python" -m pytest -p no:cacheprovider "$@"
