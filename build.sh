#!/usr/bin/env bash
# Builds DeepInfer.   DEEPINFER_ACCELERATOR=cpu|nvidia   BUILD=release|debug|tsan   TESTS=0|1
# Output: build/<accelerator>-<BUILD>/; bin/deepinfer links to the program built last.
set -euo pipefail
cd "$(dirname "$0")"
accelerator=${DEEPINFER_ACCELERATOR:-cpu}
build=${BUILD:-release}
case "$accelerator" in
  cpu) ;;
  nvidia) echo "build.sh: DEEPINFER_ACCELERATOR=nvidia: the CUDA backend is not part of this version yet; use cpu" >&2; exit 2 ;;
  *) echo "build.sh: DEEPINFER_ACCELERATOR=$accelerator: accepted are cpu, nvidia" >&2; exit 2 ;;
esac
case "$build" in
  release) flags=(-DCMAKE_BUILD_TYPE=Release) ;;
  debug) flags=(-DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O1" -DDI_SANITIZE=address) ;;
  tsan) flags=(-DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O1" -DDI_SANITIZE=thread) ;;
  *) echo "build.sh: BUILD=$build: accepted are release, debug, tsan" >&2; exit 2 ;;
esac
tools/install-packages build
dir=build/$accelerator-$build
mkdir -p build
cmake -S . -B "$dir" -G Ninja "${flags[@]}" -DDI_TESTS="${TESTS:-0}" -DDI_BENCH="${BENCH:-0}" -DDI_WERROR="${WERROR:-0}" >"$dir.configure.log" 2>&1 ||
  { cat "$dir.configure.log" >&2; exit 1; }
cmake --build "$dir" ${JOBS:+-j "$JOBS"}
mkdir -p bin
ln -sfn "../$dir/bin/deepinfer" bin/deepinfer
