#!/usr/bin/env bash
# The nightly core in a few minutes, on the simulated engine (an H200): a night that becomes the
# baseline, one that is judged against it, and one on a server made 10 % slower, which must be caught.
# usage: PYTEST=.venv/bin/pytest tools/demo.sh suites/nightly
set -euo pipefail
suites=${1:-suites/nightly}
home=.llmperf/demo
rm -rf "$home"

night() {
    "${PYTEST:-pytest}" "$suites" -m gpu -q --no-header -p no:cacheprovider -n 2 --dist loadgroup \
        --llmperf-engine sim --llmperf-prompts 24 --llmperf-launches 3 --llmperf-replays 1 \
        --llmperf-baselines "$home/baselines" --llmperf-runs "$home/runs" \
        --llmperf-report "$home/report" "$@"
}

echo "demo: the first night, accepted as the baseline"
night --llmperf-accept
echo
echo "demo: the second night, judged against it"
night
echo
echo "demo: the third night, one server's every step 10 % slower"
if night -k "qwen3-14b/chat" --llmperf-launches 2 --llmperf-server-args "--slowdown 1.10"; then
    echo "demo: a loss of 10 % was not caught" >&2
    exit 1
fi
echo
echo "demo: the loss was caught, as it should be (the failures above are the point)"
echo "demo: read the report: $PWD/$home/report/index.html"
