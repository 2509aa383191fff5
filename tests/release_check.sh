#!/usr/bin/env bash
# Check a release: build the sdist, and the wheel from it; install the wheel into a fresh environment;
# use it in an empty folder, away from the checkout. Needs 6 GB, and the network for the packages.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PIP_CONSTRAINT="$checkout/constraints.txt" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1
unset PYTHONPATH
cd "$folder"
"${PYTHON:-python3}" -m venv env
PATH="$folder/env/bin:$PATH"
pip install build
python -m build --outdir dist "$checkout" > build.log || { cat build.log; exit 1; }
wheel=$(echo "$folder"/dist/*.whl)
echo "built: $(ls dist | tr '\n' ' ')"
pip install "$wheel"
extras=$(python -c 'from importlib.metadata import metadata
print(*metadata("cse-platform").get_all("Provides-Extra"))')
for extra in $extras; do
    pip install --dry-run "${wheel}[$extra]"
done
echo "extras that resolve: $extras"
mkdir lab
cd lab
cse-sweep quickstart
cse-leaderboard --backbone mini --format csv > board.csv
[ "$(wc -l < board.csv)" -gt 1 ]
cse-leaderboard paper > papers.txt
cse-dashboard export quickstart-rankcse page
[ -s page/report.html ]
echo "the release passes"
