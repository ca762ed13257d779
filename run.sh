#!/usr/bin/env bash
# Answers a question:   ./run.sh "What is 17 + 25?"
# Installs what is missing, builds what is not built yet, then runs `deepinfer run` with the given arguments (--help lists them).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$here/build/${DEEPINFER_ACCELERATOR:-cpu}-release/bin/deepinfer
# Nothing to do when the program is newer than every source.
if [ ! -x "$program" ] || [ -n "$(find "$here"/{src,include,cmake,CMakeLists.txt} -newer "$program" -type f -print -quit)" ]; then
  echo "building (once, some minutes) ..." >&2
  BUILD=release "$here/build.sh" >"$here/build.log" 2>&1 || { tail -n 40 "$here/build.log" >&2; echo "build failed; the whole output is in build.log" >&2; exit 1; }
fi
exec "$program" run "$@"
