#!/bin/bash
# The build script of a fake operator project: compiles it with the simulator.
here="$(cd "$(dirname "$0")" && pwd)"
exec python3 "$(cat "$here/fake_home")/build.py" "$here"
