#!/bin/sh
set -eu
# Machine code that was compiled with the image is copied to the cache, where more may be added: the root is read-only.
cp -R -n -p /opt/komd/machine-code/. "$NUMBA_CACHE_DIR/" 2>/dev/null || true
# Set but empty, it would be the name of a processor for which nothing is compiled yet.
[ -n "${NUMBA_CPU_NAME:-}" ] || unset NUMBA_CPU_NAME
# A password in a file stays out of the settings, of `docker inspect` and of the list of processes.
if [ -n "${KOMD_STORE_PASSWORD_FILE:-}" ]; then
  PGPASSWORD="$(cat "$KOMD_STORE_PASSWORD_FILE")"
  export PGPASSWORD
fi
exec komd "$@"
