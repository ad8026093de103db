#!/usr/bin/env bash
# Starts a local cluster, installs the operator, plays the sample runs and prints their scores.
set -euo pipefail
cd "$(dirname "$0")/.."

image=${IMAGE:-csenv:dev}
started=$SECONDS
say() { printf '\n\033[1m==> [%3ds] %s\033[0m\n' "$((SECONDS - started))" "$*"; }

command -v go >/dev/null || { echo "Go 1.26 or newer is not on PATH: install it from https://go.dev/dl" >&2; exit 1; }

say "building csenv and the cluster tool (the first time about 4 minutes on 2 cores) and playing 40 tickets without a cluster"
make --no-print-directory programs
# The image gets the same program.
export CSENV_PROGRAM=$PWD/bin/csenv
bin/csenv eval ticket-classify --agent heuristic --results none

kubectl() { bin/cluster kubectl -- "$@"; }

say "starting the cluster (the first start builds Kubernetes from its modules: about 10 minutes on 2 cores)"
bin/cluster up
say "loading the csenv image"
bin/cluster load --image "$image"

say "kubectl apply -k config/default"
kubectl apply --server-side --force-conflicts -k config/default | sed 's/^/  /'
# The tag does not change with the image, so the new image needs a restart.
kubectl -n csenv-system rollout restart deployment/csenv-manager >/dev/null
kubectl -n csenv-system rollout status deployment/csenv-manager --timeout=120s | tail -n 1 | sed 's/^/  /'

say "kubectl apply -k config/samples"
kubectl delete -k config/samples --ignore-not-found --timeout=90s >/dev/null
kubectl apply -k config/samples | sed 's/^/  /'

say "playing"
runs=$(kubectl get evalrun -l csenv.dev/sample=true -o name)
for attempt in $(seq 1 120); do
	states=$(kubectl get evalrun -l csenv.dev/sample=true --no-headers -o 'custom-columns=N:.metadata.name,D:.status.progress,S:.status.conditions[?(@.type=="Complete")].reason,F:.status.conditions[?(@.type=="Failed")].status')
	[ "$states" = "${before:-}" ] || sed -E 's/^/  /; s/ +[^ ]+$//' <<<"$states"
	before=$states
	[ "$(grep -cE ' Completed +False$' <<<"$states")" -eq "$(wc -l <<<"$runs")" ] && break
	if grep -q ' True$' <<<"$states" || [ "$attempt" -eq 120 ]; then
		echo "a run did not complete; the state of the cluster is:" >&2
		kubectl get cse,evalrun,jobs,pods -o wide >&2
		kubectl get events --sort-by=.lastTimestamp >&2
		kubectl -n csenv-system logs deployment/csenv-manager --tail=50 >&2
		exit 1
	fi
	sleep 1
done

say "kubectl get cse,evalrun"
kubectl get cse,evalrun
say "the aggregated scores"
kubectl get evalrun -l csenv.dev/sample=true -o 'custom-columns=RUN:.metadata.name,TOTAL:.status.episodes.total,SCORED:.status.episodes.scored,FAILED:.status.episodes.failed,ERRORED:.status.episodes.errored,MEAN:.status.score.mean,CI95-LOW:.status.score.ci95.low,CI95-HIGH:.status.score.ci95.high,PASS-RATE:.status.passRate'
say "the score of the agents oracle and noop for each part of the rubric"
kubectl get evalrun oracle noop-agent -o 'go-template={{range .items}}{{$run := .metadata.name}}{{range .status.tasks}}{{$task := .name}}{{range .dimensions}}{{printf "  %-12s %-16s %-12s %s of %s\n" $run $task .name .mean .max}}{{end}}{{end}}{{end}}'
say "done in $((SECONDS - started)) s. To use the cluster:"
echo "  export KUBECONFIG=$(bin/cluster kubeconfig)"
echo "  bin/cluster kubectl -- get evalrun heuristic -o yaml"
echo "  bin/cluster down   # to remove the cluster"
