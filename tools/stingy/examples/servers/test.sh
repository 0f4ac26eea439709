#!/usr/bin/env bash
# Runs the own tests of the servers that obtain.sh and stingify.sh have built in FOLDER, of each before and after.
#   ./test.sh FOLDER [SERVER]...     default: all three
# Then memcheck runs each program with 160 connections; memory that is definitely lost counts as an error. The logs are
# FOLDER/SERVER.test and FOLDER/SERVER.memcheck, and those of SERVER-stingy. Requires perl, tclsh and valgrind.
set -euo pipefail
[ "$#" -gt 0 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
folder="$(cd "$1" && pwd)"
shift
[ "$#" -gt 0 ] || set -- lighttpd memcached redis
jobs="${JOBS:-6}"

test_lighttpd() {
    cd tests
    make -s fcgi-responder scgi-responder
    export srcdir=. top_builddir=..
    ./prepare.sh
    ./run-tests.pl
    ./cleanup.sh
}
test_memcached() {
    make -s sizes testapp timedrun
    # Those for TLS, the proxy and external storage need options of `configure`.
    find t -maxdepth 1 -name '*.t' | grep -v 'ssl_\|proxy\|extstore' | sort | xargs prove -j "$jobs"
}
test_redis() {
    local units
    units="$(sed -n '/^set ::all_tests {/,/^}/s/ *\(unit\/.*\)/--single \1/p' tests/test_helper.tcl)"
    # shellcheck disable=SC2086
    ./runtest --clients "$jobs" $units
}
# The results in a log.
results() {
    sed -i 's/\x1b\[[0-9;]*m//g' "$2"
    case "$1" in
        redis) echo "$(grep -c '^\[ok\]' "$2" || true) tests pass, $(grep -c '^\[err\]' "$2" || true) fail" ;;
        *) tail -n 3 "$2" | grep -o 'Files=[0-9]*\|Tests=[0-9]*\|Result: [A-Z]*' | xargs ;;
    esac
}

# The command of a server, and requests to it, each with the end of its reply.
lighttpd_requests=(
    $'GET /file HTTP/1.1\r\nHost: a\r\n\r\n' 'x{5000}$'
    $'GET /none HTTP/1.1\r\nHost: a\r\n\r\n' '404.*</html>\s*$'
    $'HEAD /file HTTP/1.1\r\nHost: a\r\n\r\n' '5000\r\n.*\r\n\r\n$'
)
lighttpd() {
    mkdir -p "$folder/site"
    head -c 5000 /dev/zero | tr '\0' x >"$folder/site/file"
    printf 'server.document-root = "%s"\nserver.bind = "127.0.0.1"\nserver.port = %s\n' "$folder/site" "$1" \
        >"$folder/lighttpd.conf"
    program=(src/lighttpd -D -f "$folder/lighttpd.conf")
}
memcached_requests=(
    $'set key 0 0 3\r\nabc\r\n' '^STORED\r\n$'
    $'get key none key\r\n' 'END\r\n$'
    "set large 0 0 100000"$'\r\n'"$(printf '%0100000d' 0)"$'\r\n' '^STORED\r\n$'
    $'get large\r\n' 'END\r\n$'
    $'delete none\r\n' '^NOT_FOUND\r\n$'
)
memcached() {
    # The other program exits where valgrind refuses to raise a limit.
    make -s memcached-debug
    program=(./memcached-debug -u root -t 1 -U 0 -l 127.0.0.1 -p "$1")
}
redis_requests=(
    $'SET key abc\r\n' '^\+OK\r\n$'
    $'GET key\r\n' '^\$3\r\nabc\r\n$'
    $'SETRANGE large 99999 x\r\n' '^:100000\r\n$'
    $'MULTI\r\nGET large\r\nGET large\r\nEXEC\r\n' '\$100000\r\n.*x\r\n\$100000\r\n.*x\r\n$'
    $'NONE\r\n' '^-ERR.*\r\n$'
)
redis() {
    program=(src/redis-server --port "$1" --bind 127.0.0.1 --save "" --appendonly no --dir "$folder")
}
port() {
    perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport'
}
# Opens 160 connections to a port and sends all requests on each. Half of the connections are then replaced.
clients() {
    perl -MIO::Socket::INET -e '
        my ($port, @requests) = @ARGV;
        sub connection {
            for (1 .. 600) {
                my $one = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port);
                return $one if $one;
                select(undef, undef, undef, 0.1);
            }
            die "no connection to port $port";
        }
        local $SIG{ALRM} = sub { die "no reply within 120 s" };
        my @connections = map { connection() } 1 .. 160;
        for my $round (1 .. 4) {
            for (my $i = 0; $i < @requests; $i += 2) {
                alarm 120;
                print $_ $requests[$i] and $_->flush for @connections;
                for my $one (@connections) {
                    my $reply = "";
                    until ($reply =~ /$requests[$i + 1]/s) {
                        sysread($one, $reply, 1 << 16, length $reply) or die "closed after: $reply";
                    }
                }
            }
            $_ % 2 and $connections[$_] = connection() for 0 .. 159;
        }' "$@"
}

for server; do
    for work in "$folder/$server" "$folder/$server-stingy"; do
        cd "$work"
        ("test_$server") >"$work.test" 2>&1 || true
        echo "$(basename "$work"): $(results "$server" "$work.test")"

        port="$(port)"
        "$server" "$port"
        valgrind --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
            --log-file="$work.memcheck" "${program[@]}" >"$work.output" 2>&1 &
        requests="${server}_requests[@]"
        clients "$port" "${!requests}" || { kill "$!"; exit 1; }
        kill "$!"
        wait "$!" || true
        sed -n "s/.*ERROR SUMMARY: \(.* contexts\).*/$(basename "$work"): memcheck: \1/p" "$work.memcheck"
    done
done
