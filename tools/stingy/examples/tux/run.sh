#!/usr/bin/env bash
# The whole way from tux.c to figures: analysis, allocator, patch, simulated L2 misses, and time.
#   ./run.sh [IN_FLIGHT]...        default: 64 10000
# Requires gcc, patch and valgrind. PHALANX_STINGY names the tool, otherwise cargo builds it. Files go to target/stingy.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here/../../../.."
if [ -z "${PHALANX_STINGY:-}" ]; then
    cargo build -q --release -p phalanx-stingy
    PHALANX_STINGY="$PWD/target/release/phalanx-stingy"
fi
work="$PWD/target/stingy"
rm -rf "$work"
mkdir -p "$work/new"
cp "$here"/tux.c "$here"/stingy.toml "$work"
cd "$work"

flags=(-O2 -g -Wall -Wextra -Werror)
gcc "${flags[@]}" -fstack-usage -o tux tux.c
"$PHALANX_STINGY" memwalk
"$PHALANX_STINGY" memwalk --json >tux.json
"$PHALANX_STINGY" stingygen tux.json --out new
"$PHALANX_STINGY" stingify >tux.patch
cp tux.c new
patch -s -d new -p1 <tux.patch
gcc "${flags[@]}" -o new/tux new/tux.c new/stingy.c

# Data misses of a simulated L2 cache of the size of this machine's, which is the last level of the simulation.
# valgrind simulates numbers of sets that are powers of two, so that another cache has more ways, such as 20 of 1.25 MiB.
l2=$((1024 * $(tr -d K </sys/devices/system/cpu/cpu0/cache/index2/size)))
ways=8
while [ $((l2 % (64 * ways))) -ne 0 ] || [ $((l2 / 64 / ways & (l2 / 64 / ways - 1))) -ne 0 ]; do
    ways=$((ways + 1))
done
misses() {
    local log="$work/valgrind.log"
    STINGY_L2=$l2 valgrind --tool=cachegrind --cache-sim=yes --I1=32768,8,64 --D1=32768,8,64 --LL="$l2,$ways,64" \
        --cachegrind-out-file="$work/cachegrind.out" "$@" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
    awk '/LLd misses/ { gsub(",", ""); print $4 }' "$log"
}
median() {
    sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

[ "$#" -gt 0 ] || set -- 64 10000
for k in "$@"; do
    # Two lengths subtracted: without the start.
    for program in tux new/tux; do
        short="$(misses "./$program" "$k" $((2 * k)))"
        long="$(misses "./$program" "$k" $((2 * k + 10000)))"
        printf '%d in flight: %s: %.1f L2 misses per request\n' "$k" "$program" \
            "$(awk "BEGIN { print ($long - $short) / 10000 }")"
    done
    # Pairs, so that both have the same noise; each program is the first of every second.
    for pair in 1 2 3 4 5 6 7; do
        programs=(./tux new/tux)
        [ $((pair % 2)) -eq 1 ] || programs=(new/tux ./tux)
        for program in "${programs[@]}"; do
            "$program" "$k" 50000 >"$work/$(dirname "$program" | tr -d .)result"
        done
        if [ "$(cut -d, -f2 "$work/result")" != "$(cut -d, -f2 "$work/newresult")" ]; then
            echo "the patched server gives other responses:" >&2
            cat "$work/result" "$work/newresult" >&2
            exit 1
        fi
        awk "BEGIN { print $(cut -d' ' -f1 "$work/result") / $(cut -d' ' -f1 "$work/newresult") }"
    done >"$work/ratios"
    median <"$work/ratios" | xargs printf '%d in flight: time before / after %.2f\n' "$k"
done
