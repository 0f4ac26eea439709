#!/usr/bin/env bash
# Rewrites the servers that obtain.sh has built in FOLDER, and builds the result in FOLDER/SERVER-stingy.
#   ./stingify.sh FOLDER [SERVER]...     default: all three
# PHALANX_STINGY names the tool, otherwise cargo builds it. The patch is FOLDER/SERVER-stingy/stingy.patch.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
[ "$#" -gt 0 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
folder="$(cd "$1" && pwd)"
shift
[ "$#" -gt 0 ] || set -- lighttpd memcached redis
if [ -z "${PHALANX_STINGY:-}" ]; then
    (cd "$here" && cargo build -q --release -p phalanx-stingy)
    PHALANX_STINGY="$here/../../../../target/release/phalanx-stingy"
fi

flags="-O2 -g -fno-omit-frame-pointer -fstack-usage"
jobs="${JOBS:-$(nproc)}"

# The object file of the allocator is linked like an option of the linker.
build_lighttpd() {
    make -s -j "$jobs" -C src lighttpd CFLAGS="$flags -I$1" LDFLAGS="$1/stingy.o"
}
build_memcached() {
    make -s -j "$jobs" CFLAGS="$flags -pthread -I$1" LDFLAGS="$1/stingy.o"
}
build_redis() {
    make -s -j "$jobs" -C src MALLOC=libc OPTIMIZATION=-O2 REDIS_CFLAGS="$flags -I$1" REDIS_LDFLAGS="$1/stingy.o"
}

for server; do
    work="$folder/$server-stingy"
    rm -rf "$work"
    cp -a "$folder/$server" "$work"
    rm -f "$work/stingy.built"
    cp "$here/$server.toml" "$work/stingy.toml"
    cd "$work"
    "$PHALANX_STINGY" memwalk --json >stingy.json 2>stingy.warnings
    "$PHALANX_STINGY" stingygen stingy.json
    "$PHALANX_STINGY" stingify >stingy.patch 2>stingy.notes
    patch -s -p1 <stingy.patch
    gcc -std=gnu11 -O2 -g -Wall -Wextra -c -o stingy.o stingy.c
    "build_$server" "$work"
    touch stingy.built
    echo "built $work: $(grep -c '^[+-][^+-]' stingy.patch) changed lines"
done
