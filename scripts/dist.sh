#!/usr/bin/env bash
# Builds the source distribution and the wheel into dist/, and checks both as an index does; then installs the wheel into an
# environment of its own and asks it for its version. Environment variables:
#   REPOSITORY  where the code is hosted, https://HOST/OWNER/NAME: links of the index page lead there
#   PYTHON      interpreter                                                          (default: python3)
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "dist: $*" >&2; exit 1; }

[[ ${REPOSITORY:-} == https://* ]] ||
    fail "REPOSITORY='${REPOSITORY:-}' is no address for the links of the index page; give https://HOST/OWNER/agentgym-rl"
export REPOSITORY
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"${PYTHON:-python3}" -m venv "$place/tools"
"$place/tools/bin/pip" install -q build twine
rm -rf dist
"$place/tools/bin/python" -m build
"$place/tools/bin/twine" check --strict dist/*

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
"${PYTHON:-python3}" -m venv "$place/user"
"$place/user/bin/pip" install -q "dist/agentgym_rl-$version-py3-none-any.whl"
cd "$place"
found=$(user/bin/agentgym-rl --version)
[[ $found == "$version" ]] || fail "the wheel says that it is $found, and pyproject.toml $version"
user/bin/agentgym-rl play textcraft_12 --policy oracle >/dev/null || fail "the wheel cannot play textcraft_12"
echo "dist: $(ls "$OLDPWD/dist" | paste -sd' ') of version $version; upload them with twine"
