#!/bin/sh
# Installs the Debian packages that the tests use (listed in debian.txt) if apt and root allow it. Otherwise the tests
# that need one of them are skipped, with the reason.
set -eu
missing=
for package in $(cat "$(dirname "$0")/debian.txt"); do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "not installed:$missing (needs root and apt); the tests that use them will skip" >&2
    exit 0
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
