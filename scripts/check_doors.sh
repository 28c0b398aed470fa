#!/usr/bin/env bash
# Tests the interfaces to other projects (agentgym_rl/compat, Inspect's logs), and the losses of preferences beside TRL's
# DPO, against the projects' own packages, in a virtual environment of its own, .venv/doors, which sees the packages of
# .venv behind its own. Arguments, if any, are those of pytest.
#
#   BASE   virtual environment with this project, as `make setup` makes it   (default: .venv)
set -euo pipefail
cd "$(dirname "$0")/.."

BASE=${BASE:-.venv}
DOORS=.venv/doors
PACKAGES="trl==1.16.0 verifiers==0.4.0 inspect-ai==0.3.285 uv"

site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

"$DOORS/bin/python" -m pip --version >/dev/null 2>&1 || "$BASE/bin/python" -m venv "$DOORS"
printf '%s\n%s\n' "$PWD" "$(site "$BASE")" >"$(site "$DOORS")/base.pth"
# shellcheck disable=SC2086  # several packages
"$DOORS/bin/python" -m pip install -q --disable-pip-version-check $PACKAGES
[ $# -gt 0 ] || set -- tests/compat tests/eval/test_inspect_log.py
PATH="$PWD/$DOORS/bin:$PATH" AGENTGYM_RL_DOORS=1 exec "$DOORS/bin/python" -m pytest -n 0 "$@"
