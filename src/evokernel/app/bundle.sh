#!/bin/sh
# Runs the bundled run and packs its results into @RESULTS@; import that file with 'evokernel bundle import'.
# With arguments it runs that command of evokernel instead.
cd "$(dirname "$0")" || exit 1
export PYTHONPATH="$PWD/src:$PWD/site${PYTHONPATH:+:$PYTHONPATH}"
PYTHON="${PYTHON:-python3}"
[ $# -gt 0 ] && exec "$PYTHON" -m evokernel.cli.main "$@"
"$PYTHON" -m evokernel.cli.main @COMMAND@
code=$?
tar -czf @RESULTS@ results @BANK@ 2>/dev/null || tar -czf @RESULTS@ results
exit $code
