#!/usr/bin/env bash
# packages.sh FOLDER: installs the packages of FOLDER in a bare Debian 12 root, trains there, brings
# the packages of FOLDER/later over them, and removes and purges them: packages_inside.sh has what is
# asked of each. The examples are built in a second root, which has leat-dev and a compiler. As root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/deploy/bare_root.sh
. "$here/bare_root.sh"
packages=$1
mkdir -p "$bare_cache"
work=$(mktemp -d "$bare_cache/run-XXXXXX")
trap 'rm -rf "$work"' EXIT

# As apt reads them: alternatives of which the first is taken.
needed=$(dpkg-deb --field "$packages"/leat_*.deb Depends | tr ',' '\n' |
  sed 's/([^)]*)//g; s/|.*//; s/ //g')

mkdir "$work/bare"
# shellcheck disable=SC2086 # words
make_bare_root "$work/bare" $needed
mkdir "$work/bare/packages"
cp -r "$packages"/. "$work/bare/packages"
cp "$here/packages_inside.sh" "$work/bare/packages/"
in_root "$work/bare" bash /packages/packages_inside.sh
rm -rf "$work/bare"

mkdir "$work/dev"
# shellcheck disable=SC2086 # words
make_bare_root "$work/dev" $needed cmake g++ ninja-build
mkdir "$work/dev/packages"
cp "$packages"/*.deb "$work/dev/packages"
cp "$here/examples_inside.sh" "$work/dev/packages/"
in_root "$work/dev" bash /packages/examples_inside.sh
