#!/bin/sh
# Runs what was packed, then packs what was found: bring @RESULTS@ back. With arguments: any other command of evokernel.
cd "$(dirname "$0")" || exit 1
export PYTHONPATH="$PWD/src:$PWD/site${PYTHONPATH:+:$PYTHONPATH}"
PYTHON="${PYTHON:-python3}"
[ $# -gt 0 ] && exec "$PYTHON" -m evokernel.cli.main "$@"
"$PYTHON" -m evokernel.cli.main @COMMAND@
code=$?
tar -czf @RESULTS@ results @BANK@ 2>/dev/null || tar -czf @RESULTS@ results
exit $code
