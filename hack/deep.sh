#!/usr/bin/env bash
# The deep suite: the parts that the gate leaves out because they are long or busy. Runs the named
# parts, or all of them, one after the other; a red part doesn't stop the next. It prints each
# part's time and result at the end, and keeps the logs in bin/deep.
#
#   hack/deep.sh [--list] [PART …]
set -uo pipefail
cd "$(dirname "$0")/.."

# fuzz fuzzes every decoder for FUZZTIME. Without the limit of minimizing, Go shortens each new input
# for up to a minute, counts no execution meanwhile, and then starts the process again.
fuzz() {
	grep -rn --include=*_test.go -o 'func Fuzz[A-Za-z0-9_]*' scenarios envserver controllers |
		while IFS=: read -r file _ func; do
			echo "==> ${func#func } in $(dirname "$file")"
			go test "./$(dirname "$file")" -run '^$' -fuzz "^${func#func }\$" -fuzztime "${FUZZTIME:-10s}" \
				-fuzzminimizetime 100x || exit 1
		done
}

# A part is a name and a command.
parts=(
	"lint        make lint-deep"
	"test        make test SHORT="
	"race        make test-race RACEPACKAGES=./... SHORT="
	"kueue       make test-kueue"
	"alerts      make test-alerts"
	"chart       make test-chart"
	"browser     make test-browser"
	"conformance make conformance"
	"e2e         make test-e2e"
	"nodes       env CSENV_CLUSTER=local NODES=2 make test-e2e E2EFLAGS=--label-filter=nodes,chaos"
	"scale       go run ./hack/bench operator"
	"abuse       go run ./hack/abuse"
	"fuzz        fuzz"
)

if [ "${1:-}" = --list ]; then
	printf '%s\n' "${parts[@]}"
	exit
fi
mkdir -p bin/deep
export RAPID_SEED=0 # other cases each time
red=0 report=()
for part in "${parts[@]}"; do
	read -r name command <<<"$part"
	[ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
	printf '\n=== [%5ds] %s: %s\n' "$SECONDS" "$name" "$command"
	began=$SECONDS result=green
	# shellcheck disable=SC2086 # a command with its arguments
	$command 2>&1 | tee "bin/deep/$name.log" || { result="RED, bin/deep/$name.log"; red=1; }
	report+=("$(printf '%6d s  %-12s %s' "$((SECONDS - began))" "$name" "$result")")
done
printf '\n=== [%5ds] the deep suite\n' "$SECONDS"
printf '%s\n' "${report[@]}"
exit "$red"
