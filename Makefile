# Builds, tests and demonstrates csenv. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
IMAGE ?= csenv:dev
# Extra flags of go test, for example GOTESTFLAGS='-run TestSchema'.
GOTESTFLAGS ?=
# Packages to test, and the flag by which properties draw fewer cases and long tests are left out:
# empty for all of them.
PACKAGES ?= ./... ./hack/...
SHORT ?= -short
# The packages that `make test-race` tests: those that the gate's time allows, of those that start
# goroutines.
RACEPACKAGES ?= ./envserver/openenv/... ./envserver/play/rollout ./envserver/endpoint ./envserver/grader/llm \
	./envserver/play/results ./envserver/play/load ./controllers/polling ./cmd/csenv/index ./cmd/csenv/ui
# Extra flags of the end-to-end suite, for example E2EFLAGS='--label-filter=upgrade' or
# E2EFLAGS='--focus "random kills"'. Specs with the label s3 build an S3 server first.
E2EFLAGS ?=
# An older minor of Kubernetes for `make test`, for example KUBERNETES=1.36; empty is the newest.
KUBERNETES ?=
# The build tags of programs, those of hack/shipped.
TAGS := disable_grpc_modules,grpcnotrace
# Training. The flags are those of examples/learn/learn.py.
LEARNMINUTES ?= 10
LEARNFLAGS ?= --pack config/samples/training/desk --scenarios desk-

# Releases.
IMAGE_REPOSITORY ?= ghcr.io/csenv/csenv
PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64
BUILDER ?=
COSIGN_KEY ?=
COSIGN_PUB ?=
# The folder of the release that release-verify verifies.
DIST ?= dist

# Everything is built and tested with the same flags, so that each package is compiled once.
ifeq ($(MAKELEVEL),0)
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -tags=$(TAGS))
endif

# tool is the built program of a pinned tool, which sees the modules of go.work when it runs.
tool = "$$(GOWORK=off go tool -n -modfile=hack/tools/go.mod $(1))"
# The limit of a package is for tests that hang: they print what every goroutine waits for.
GOTEST := $(call tool,gotestsum) --format pkgname --hide-summary skipped -- -timeout 30m
# CSENV_CLUSTER_TOOL and CSENV_PROGRAM name built programs of hack/cluster and cmd/csenv.
CLUSTER := $(or $(CSENV_CLUSTER_TOOL),go run ./hack/cluster)
RELEASE := go run ./hack/release
COSIGN := GOWORK=off go tool -modfile=hack/cosign/go.mod cosign

export CGO_ENABLED ?= 0
# Properties draw the same cases in every run; 0 draws others each time.
export RAPID_SEED ?= 1

##@ The two commands

.PHONY: demo
demo: ## Start a local cluster, install csenv, run the samples and print their scores.
	@IMAGE=$(IMAGE) hack/demo.sh

.PHONY: test
test: ## Run unit, property and envtest suites (real etcd, kube-apiserver, controllers).
	@echo "==> finding etcd, kube-apiserver and kube-controller-manager (built from Go modules: 6 minutes, once)"
	@assets="$$($(CLUSTER) envtest --kubernetes=$(KUBERNETES))"; \
	echo "==> go test $(SHORT) $(PACKAGES) (KUBEBUILDER_ASSETS=$$assets)"; \
	CSENV_REQUIRE_APISERVER=1 KUBEBUILDER_ASSETS="$$assets" $(GOTEST) $(SHORT) $(GOTESTFLAGS) $(PACKAGES)

.PHONY: test-race
test-race: ## Run the tests of RACEPACKAGES with the race detector, which needs a C compiler.
	@$(MAKE) --no-print-directory test CGO_ENABLED=1 GOTESTFLAGS="-race $(GOTESTFLAGS)" PACKAGES="$(RACEPACKAGES)"

.PHONY: test-deep
test-deep: ## Run what the gate leaves out, or some PARTS of it (hack/deep.sh --list), and print each part's time.
	@hack/deep.sh $(PARTS)

.PHONY: ci
ci: ## Run the gate: everything that a change must pass.
	.ci/run

##@ Development

.PHONY: build
build: ## Build all binaries into bin/.
	@command -v go >/dev/null || { echo "make needs Go: install the version of go.mod from https://go.dev/dl/" >&2; exit 1; }
	@mkdir -p bin
	go build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ ./cmd/...

.PHONY: programs
programs: ## Build bin/csenv as the image has it and bin/cluster, which tests take from CSENV_PROGRAM and CSENV_CLUSTER_TOOL.
	@mkdir -p bin
	go build -tags $(TAGS),image -ldflags "-s -w -X main.version=$(VERSION)" -o bin/csenv ./cmd/csenv
	go build -o bin/cluster ./hack/cluster

.PHONY: generate
generate: ## Generate deepcopy functions, CRDs, RBAC and docs/api.md from the Go types, the chart's files from config, Python models from the schemas, and the index of the scenarios.
	$(call tool,controller-gen) object paths=./api/...
	$(call tool,controller-gen) crd paths=./api/... output:crd:dir=config/crd/bases
	$(call tool,controller-gen) rbac:roleName=csenv-manager paths=./controllers/... output:rbac:dir=config/rbac
	$(call tool,crd-ref-docs) --log-level=ERROR --source-path=api --config=hack/apidocs/config.yaml \
		--templates-dir=hack/apidocs --renderer=markdown --output-path=docs/api.md
	cp config/crd/bases/*.yaml config/rbac/role.yaml config/prometheus/rules.yaml config/prometheus/dashboard.json charts/csenv/files
	go run ./hack/pythonmodels >python/customer_support_env/schema.py
	go test ./scenarios -run TestGoldenIndex -update >/dev/null

.PHONY: verify
verify: generate ## Fail if generated files or go.mod differ from the commit, or a CRD breaks the last release.
	go mod verify >/dev/null
	go mod tidy -diff
	go -C hack mod tidy -diff
	@paths="api config charts docs/api.md python scenarios/index.json go.mod go.sum hack/go.mod hack/go.sum"; \
	if [ -n "$$(git status --porcelain -- $$paths)" ]; then \
		git --no-pager diff -- $$paths; git status --short -- $$paths; \
		echo "generated files differ: run 'make generate' and commit the result"; exit 1; fi
	go run ./hack/crdcompat

.PHONY: lint
# The tags select the files that builds leave out; none of them hides a file. The rules are passed as
# text because the go command does not see that a file which the tool reads has changed.
lint: ## Check the code with hack/lint, which has go vet's passes, its format and its width.
	@mkdir -p bin
	GOWORK=off go build -C hack/lint -buildvcs=false -o "$(CURDIR)/bin/lint" .
	go vet -vettool=bin/lint -config="$$(cat .golangci.yaml)" -tags $(TAGS),conformance,docs,e2e,image ./... ./hack/...
	@unformatted="$$(gofmt -l $$(git ls-files '*.go'))"; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on: $$unformatted"; exit 1; fi
	@wide="$$(git ls-files '*.go' | grep -v 'zz_generated\|/testdata/' | LC_ALL=C xargs awk '{ gsub(/\t/, "    "); gsub(/[\200-\277]/, "") } \
		/^ *\/\// && !/\+kubebuilder|go:/ && length($$0) > 100 { print FILENAME ":" FNR ": a comment over 100 columns" } \
		FILENAME !~ /_test\.go$$|^envserver\/testkit\/dialect/ && !/^ *\/\/ \+kubebuilder:|(json|yaml):"|^\/\/go:/ && length($$0) > 120 { \
			print FILENAME ":" FNR ": over 120 columns" }')"; \
	if [ -n "$$wide" ]; then echo "$$wide"; exit 1; fi

.PHONY: test-lint
test-lint: ## Test hack/lint with faults that it must find.
	GOWORK=off go test -C hack/lint ./...

.PHONY: lint-deep
lint-deep: ## Run all of golangci-lint's linters in .golangci.yaml (built from its Go module: 9 minutes, once).
	$(call tool,golangci-lint) run --build-tags e2e,image ./... ./hack/...

##@ Training

.PHONY: learn
learn: ## Train a small policy on a server's rewards for LEARNMINUTES (default 10) and draw its curve: see examples/learn.
	@mkdir -p bin
	go build -ldflags "-X main.version=$(VERSION)" -o bin/ ./cmd/csenv
	@python="$$(python3 hack/python.py learn examples/learn/requirements.txt)"; \
	"$$python" examples/learn/learn.py --minutes $(LEARNMINUTES) $(LEARNFLAGS)

##@ Slow tests

.PHONY: test-smoke
test-smoke: export CSENV_CLUSTER_NAME := $(or $(CSENV_CLUSTER_NAME),smoke)
test-smoke: ## Install csenv in a local cluster, play, replace servers, kill the manager and remove it (2 minutes).
# These flags share compiled packages with the other tests.
	@finish() { \
		code=$$?; rm -rf bin/cluster-logs; mkdir -p bin; \
		if [ $$code != 0 ]; then cp -r "$$(dirname "$$($(CLUSTER) kubeconfig)")/logs" bin/cluster-logs || true; fi; \
		$(CLUSTER) down || exit 1; exit $$code; }; \
	trap finish EXIT; \
	IMAGE=$(IMAGE) go test -tags e2e,$(TAGS) -count=1 -timeout 30m -v ./hack/e2e \
		-ginkgo.label-filter=smoke -ginkgo.timeout=25m -ginkgo.v

.PHONY: test-e2e
test-e2e: ## Start the local cluster and run the end-to-end suite against it.
	@IMAGE=$(IMAGE) $(call tool,ginkgo) run --tags e2e --timeout 120m --vv=false -v --label-filter='!smoke' $(E2EFLAGS) ./hack/e2e

.PHONY: test-browser
test-browser: ## Test the web pages in Chromium, which is installed with apt-get if it is missing, with axe-core.
	@command -v "$${CHROMIUM:-chromium}" chromium-browser google-chrome >/dev/null || { apt-get update -q; \
		DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; }
	npm ci --prefer-offline --ignore-scripts --no-audit --no-fund --silent --prefix hack/browser
	CSENV_REQUIRE_BROWSER=1 go test -count=1 -timeout 30m -run TestPages $(GOTESTFLAGS) ./hack/browser

.PHONY: test-alerts
test-alerts: ## Check the alerts and the dashboard with promtool, which is built if it is not on PATH.
	cd hack/promtool && GOWORK=off go test -timeout 30m ./...

.PHONY: test-docs
test-docs: ## Check the links of the documentation, and run the commands of README.md and docs/guides that need no cluster (2 minutes).
	go test ./docs ./hack/guides -count=1

.PHONY: docs
docs: ## Build the site of docs/ into dist/site, without a link that leads nowhere.
	@python="$$(python3 hack/python.py site hack/site/requirements.txt)"; NO_MKDOCS_2_WARNING=1 "$$python" -m mkdocs build --strict --quiet
	@echo "dist/site/index.html is written"

.PHONY: test-chart
test-chart: ## Check the Helm chart with Helm's library: the same objects as config, values, schema.
	cd hack/chart && GOWORK=off go test $(GOTESTFLAGS) ./...

.PHONY: test-kueue
test-kueue: ## Test runs in a queue with Kueue's own controller, which is built from its Go module.
	@mkdir -p bin/kueue
	@source="$$(go mod download -json sigs.k8s.io/kueue@v0.16.1 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')"; \
	go build -C "$$source" -trimpath -o "$(CURDIR)/bin/kueue/kueue" ./cmd/kueue; \
	$(call tool,kustomize) build "$$source/config/default" >bin/kueue/kueue.yaml
	@assets="$$($(CLUSTER) envtest)"; \
	CSENV_KUEUE="$(CURDIR)/bin/kueue" CSENV_REQUIRE_APISERVER=1 KUBEBUILDER_ASSETS="$$assets" \
		go test ./controllers/run -count=1 -run TestAgainstAPIServer -ginkgo.focus "Kueue's default queue"

.PHONY: bench
bench: ## Measure servers, or what BENCH names: official, update, operator (hack/bench). Takes up to 30 minutes.
	@go run ./hack/bench $(or $(BENCH),official) $(BENCHFLAGS)

.PHONY: conformance
conformance: ## Test compatibility with OpenEnv and MCP clients, LiteLLM and S3: see docs/conformance.md.
	@mkdir -p bin
	@go build -o bin/conformance ./hack/conformance
	@bin/conformance $(CONFORMANCEFLAGS)

.PHONY: test-openenv
test-openenv: ## Test with OpenEnv's official client, without the test that lasts two minutes, unless there is no package index.
	@mkdir -p bin
	@go build -o bin/conformance ./hack/conformance
	@bin/conformance --suites openenv --match 'not blocked_for_120_s' || { code=$$?; [ "$$code" = 3 ] || exit "$$code"; \
		echo "warning: the package index can't be reached: the official client was not tested"; }

##@ Release

.PHONY: release
release: ## Build the release VERSION=v1.2.3 of this commit into dist/, signed if COSIGN_KEY is a private key.
	@$(RELEASE) build --version "$(if $(filter file,$(origin VERSION)),,$(VERSION))" --image "$(IMAGE_REPOSITORY)" \
		--platforms "$(PLATFORMS)" --key "$(COSIGN_KEY)" $(if $(BUILDER),--builder "$(BUILDER)")

.PHONY: release-verify
release-verify: ## Verify every file of dist/ without a network, and the signatures if COSIGN_PUB is a public key.
	@cd "$(DIST)"; sha256sum --check --quiet checksums.txt; \
		find . ! -type d ! -name 'checksums.txt*' -printf '%P\n' | LC_ALL=C sort | diff <(cut -c 67- checksums.txt) -
	@[ -n "$(COSIGN_PUB)" ] || { echo "the checksums are right; without COSIGN_PUB the signatures were not checked"; exit 0; }; \
		for file in "verify-blob --bundle $(DIST)/checksums.txt.sigstore.json $(DIST)/checksums.txt" "verify-blob-attestation \
			--type slsaprovenance1 --bundle $(DIST)/provenance.json.sigstore.json $(DIST)/install.yaml"; do \
		$(COSIGN) $$file --key "$(COSIGN_PUB)" --insecure-ignore-tlog=true; done

.PHONY: test-release
test-release: ## Check dist/ with cosign, install it on the local cluster and remove it.
	@cosign="$$($(subst go tool,go tool -n,$(COSIGN)))"; CSENV_COSIGN="$$cosign" \
		go test ./hack/release -count=1 -run TestCosignVerifies
	@CSENV_RELEASE="$(CURDIR)/dist" $(MAKE) --no-print-directory test-e2e E2EFLAGS='--label-filter=helm'

.PHONY: release-publish
release-publish: ## Push image and chart of dist/, sign them with the identity of the CI job, and publish the release VERSION on GitHub, with gh.
	@if [ -n "$${REGISTRY_USER:-}" ]; then $(COSIGN) login "$(firstword $(subst /, ,$(IMAGE_REPOSITORY)))" \
		--username "$$REGISTRY_USER" --password-stdin <<<"$$GH_TOKEN"; fi
	@$(RELEASE) push | while read -r reference; do $(COSIGN) sign --yes "$$reference"; done
	$(COSIGN) sign-blob --yes --bundle dist/checksums.txt.keyless.sigstore.json dist/checksums.txt
	@mkdir -p bin
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -czf bin/csenv_$(VERSION)_release.tar.gz dist
	gh release create "$(VERSION)" --verify-tag --generate-notes bin/csenv_$(VERSION)_release.tar.gz \
		$$(find dist -maxdepth 1 -type f)

##@ Other

.PHONY: help
help: ## Print this list.
	@awk 'BEGIN {FS = ":.*##"} /^[a-z0-9-]+:.*##/ {printf "  \033[36m%-15s\033[0m %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)
