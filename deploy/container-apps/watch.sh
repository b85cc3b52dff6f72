# Container Apps probes over TCP or HTTP alone, and neither says that the loop of `poller run` goes round. So this watches the
# file that the loop touches, and ends a process whose file is older than a minute: the platform then starts another.
#
#   sh watch.sh poller run --alive-file /tmp/poller-alive
#
# SIGTERM is passed on; the exit code is the command's, 137 after a loop that stood still.
worker='' stopping=''
trap 'stopping=yes; kill -TERM $worker 2>/dev/null' TERM INT HUP
"$@" &
worker=$!
[ -z "$stopping" ] || kill -TERM "$worker"
while sleep "${WATCH_EVERY:-20}"; do
    touched=$(stat -c %Y /tmp/poller-alive 2>/dev/null) || continue
    if [ $(($(date +%s) - touched)) -ge "${WATCH_LIMIT:-60}" ]; then
        echo "watch: the loop has stood still for ${WATCH_LIMIT:-60} s, the process is ended" >&2
        kill -KILL "$worker"
        break
    fi
done &
watcher=$!
code=0
# A signal that arrives ends `wait`, not the worker.
while kill -0 "$worker" 2>/dev/null; do
    wait "$worker"
    code=$?
done
kill "$watcher" 2>/dev/null
exit "$code"
