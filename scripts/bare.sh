#!/usr/bin/env bash
# Runs a command as on a machine that has nothing but Python, git, make, a C compiler and what these need: the PATH has no
# browser and no Java, home is empty, and no variable of the caller is set.
set -euo pipefail

TOOLS="sh bash env git make cc gcc c++ g++ as ld cat cp date dirname basename chmod expand expr grep head id ln ls mkdir
    mktemp mv nproc ps readlink rm sed seq sleep sort stat tail tar tee timeout touch tr true uname wc xargs"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/bin" "$place/home" "$place/tmp"
for tool in $TOOLS; do
    if path=$(type -P "$tool"); then ln -s "$path" "$place/bin/$tool"; fi
done
env -i PATH="$place/bin" HOME="$place/home" TMPDIR="$place/tmp" ${CI:+CI="$CI"} "$@"
