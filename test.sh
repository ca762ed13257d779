#!/usr/bin/env bash
# Builds and tests:   ./test.sh [--full] [-R pattern] [-E pattern]
# -R and -E choose and leave out tests by name, as in ctest. Runs the tests labelled `quick`; --full runs all of them. Reasons of skipped tests are printed before the last line, which is
# "N passed, N failed, N skipped". BUILD=debug|tsan tests the sanitizer builds.
set -euo pipefail
cd "$(dirname "$0")"
labels=(-L quick)
pattern=()
while [ $# -gt 0 ]; do
  case "$1" in
    --full) labels=() ;;
    -R) [ $# -ge 2 ] || { echo "test.sh: -R needs a pattern" >&2; exit 2; }; pattern+=(-R "$2"); shift ;;
    -E) [ $# -ge 2 ] || { echo "test.sh: -E needs a pattern" >&2; exit 2; }; pattern+=(-E "$2"); shift ;;
    *) echo "test.sh: '$1': accepted are --full, -R pattern and -E pattern" >&2; exit 2 ;;
  esac
  shift
done
tools/install-packages test
TESTS=1 ./build.sh
dir=build/${DEEPINFER_ACCELERATOR:-cpu}-${BUILD:-release}
python3 tools/check_tree.py
status=0
ctest --test-dir "$dir" "${labels[@]}" "${pattern[@]}" -j "$(nproc)" --output-on-failure --no-tests=error --output-junit results.xml || status=$?
python3 tools/summarize_tests.py "$dir/results.xml" || status=$?
exit "$status"
