#!/usr/bin/env bash
# Obtains the sources of lighttpd, memcached and redis from Debian 12, and builds them with what memwalk needs.
#   ./obtain.sh FOLDER [SERVER]...     default: all three
# Each server is built in FOLDER/SERVER, with its description as FOLDER/SERVER/stingy.toml. A built one is not built
# again. Requires dpkg-dev, gcc, make, pkg-config, libevent-dev, libpcre2-dev and zlib1g-dev, but no root: the lists of
# packages are in FOLDER too.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
[ "$#" -gt 0 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
shift
[ "$#" -gt 0 ] || set -- lighttpd memcached redis

apt=(-o "Dir::Etc::SourceList=$folder/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$folder/apt/lists" -o "Dir::Cache=$folder/apt/cache"
    -o "Dir::State::status=/var/lib/dpkg/status" -o APT::Sandbox::User=root)
lists() {
    [ ! -e "$folder/apt/updated" ] || return 0
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
    for suite in debian/:bookworm debian-security/:bookworm-security; do
        echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
            "http://deb.debian.org/${suite%%:*} ${suite##*:} main"
    done >"$folder/apt/sources.list"
    apt-get "${apt[@]}" -q update
    touch "$folder/apt/updated"
}

flags="-O2 -g -fno-omit-frame-pointer -fstack-usage"
jobs="${JOBS:-$(nproc)}"

build_lighttpd() {
    # All modules in one program, so that the analysis has all types.
    export LIGHTTPD_STATIC=yes
    ./configure -q --enable-static --disable-shared CFLAGS="$flags"
    (cd src && ls mod_*.c) | sed 's/\.c$//' | while read -r name; do
        if grep -q "^int ${name}_plugin_init" "src/$name.c" && sed -n '/^lighttpd_SOURCES = /,/^$/p' src/Makefile.am |
            grep -q "  $name\.c"; then
            echo "PLUGIN_INIT($name)"
        fi
    done >src/plugin-static.h
    make -s -C src versionstamp
    make -s -j "$jobs" -C src lighttpd
}
build_memcached() {
    ./configure -q CFLAGS="$flags"
    make -s -j "$jobs"
}
build_redis() {
    # malloc of the C library, so that each allocation is visible to valgrind.
    make -s -j "$jobs" -C src MALLOC=libc OPTIMIZATION=-O2 REDIS_CFLAGS="$flags"
}

for server; do
    work="$folder/$server"
    if [ -e "$work/stingy.built" ]; then
        continue
    fi
    lists
    rm -rf "$work" "$folder/source-$server"
    mkdir -p "$folder/source-$server"
    (cd "$folder/source-$server" && apt-get "${apt[@]}" -q source "$server")
    mv "$folder/source-$server/$server"-*/ "$work"
    rm -rf "$folder/source-$server"
    (cd "$work" && "build_$server")
    cp "$here/$server.toml" "$work/stingy.toml"
    touch "$work/stingy.built"
    echo "built $work"
done
