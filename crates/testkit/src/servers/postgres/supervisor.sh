# Arguments: the folder of PostgreSQL's programs, the folder of the server, settings.
programs=$1 folder=$2
shift 2
# If the program has ended, an answer fails; the server is stopped nevertheless.
trap '' PIPE
export LC_ALL=C
answer() {
    if [ "$1" = 0 ]; then echo ok; else echo failed; fi
}
control() {
    "$programs/pg_ctl" -s -w -D "$folder/data" -l "$folder/log" "$@" >>"$folder/log" 2>&1 3>&- 0</dev/null
}
"$programs/initdb" -D "$folder/data" -U postgres -A trust -E UTF8 --no-sync >"$folder/log" 2>&1 0</dev/null &&
    {
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$folder'"
        for setting in "$@"; do echo "$setting"; done
    } >>"$folder/data/postgresql.conf" &&
    # The users `scram`, `md5` and `password` authenticate by the method of their name.
    {
        for user in scram-sha-256 md5 password; do echo "local all ${user%%-*} $user"; done
        echo "local all all trust"
        echo "hostssl all password 127.0.0.1/32 password"
        echo "hostssl all all 127.0.0.1/32 trust"
    } >"$folder/data/pg_hba.conf" &&
    control start
answer $?
while read -r command; do
    case $command in
        stop) control -m fast stop ;;
        crash) control -m immediate stop ;;
        *) control start ;;
    esac
    answer $?
done
[ -e "$folder/data/postmaster.pid" ] && control -m immediate stop
rm -rf "$folder"/data "$folder"/log "$folder"/.s.PGSQL* "$folder" 2>/dev/null
