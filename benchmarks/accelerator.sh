#!/usr/bin/env bash
# Measures on one GPU or TPU what benchmarks/RESULTS.md lacks; the same command goes on after a kill. --help says more.
#   benchmarks/accelerator.sh --data=data/multi30k
#   PYTHON=.venv/bin/python benchmarks/accelerator.sh --rehearsal
set -euo pipefail
cd "$(dirname "$0")/.."
exec "${PYTHON:-python3}" -m benchmarks.accelerator "$@"
