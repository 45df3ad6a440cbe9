# pipefs: see README.md. `make demo`, `make check` and `make test` do all their set-up.

GO        ?= go
GOLANGCI  := bin/tools/golangci-lint
GOLANGCI_VERSION := v2.15.0
NFPM      := bin/tools/nfpm
NFPM_VERSION := v2.45.2
VERSITYGW := bin/tools/versitygw
VERSITYGW_VERSION := v1.8.0
KUBECONFORM := bin/tools/kubeconform
KUBECONFORM_VERSION := v0.8.0
RAY_VERSION := 2.60.0
RAY := bin/ray-$(RAY_VERSION)/bin/ray
FUZZTIME  ?= 60s
SOAK      ?= 180
BENCH     ?= .
COUNT     ?= 5

.DEFAULT_GOAL := build
.PHONY: build install release test-packages wheel test-wheel demo demo-cluster check test test-cluster lint size way research bench bench-l3 bench-s3 bench-cluster bench-mix bench-curves bench-epochs reproduce bench-peers test-loaders ptx fuzz soak clean

# What the linker writes into the program, and the way it is always built.
LDFLAGS = -X github.com/pipefs/pipefs/internal/mountd.version=$(shell scripts/version || echo devel)
PROGRAM = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'

build: ## bin/pipefs
	$(PROGRAM) -o bin/pipefs ./cmd/pipefs

bin/pipefs:
	@$(MAKE) build

# bin/pipefs as it is, so that root needs no Go: make && sudo make install
install: bin/pipefs ## the program, manual pages, completions, mount.pipefs and units: make install PREFIX=/usr DESTDIR=DIR
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install bin/pipefs

release: $(NFPM) ## bin/release: programs, deb and rpm for amd64 and arm64, the wheel, checksums, named by the tag
	@GO=$(GO) scripts/release

test-packages: $(NFPM) $(KUBECONFORM) ## install and use what a release holds, as users do (root): make test-packages PARTS='install deb'
	@scripts/setup packages
	@packaging/test/run $(PARTS)

wheel: ## bin/wheel: the package for Python, with the program inside: make wheel ARCH='amd64 arm64'
	@scripts/setup wheel
	@GO=$(GO) scripts/wheel $(ARCH)

test-wheel: wheel ## install the wheel into every Python here, and train with it as a user does: make test-wheel TESTS='chaos notebook'
	@/usr/bin/python3 python/tests/run.py bin/wheel/*_x86_64.whl $(TESTS)

$(NFPM):
	GOFLAGS= GOBIN=$(CURDIR)/bin/tools $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)

$(KUBECONFORM):
	GOFLAGS= GOBIN=$(CURDIR)/bin/tools $(GO) install github.com/yannh/kubeconform/cmd/kubeconform@$(KUBECONFORM_VERSION)

# The object storage of tests: some minutes, once.
$(VERSITYGW):
	GOFLAGS= GOBIN=$(CURDIR)/bin/tools $(GO) install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW_VERSION)

# Ray for tests of clusters: 80 MB to fetch, 280 MB below bin/. Its Python sees that of the system, which has PyTorch.
$(RAY):
	@scripts/setup cluster
	$(or $(PYTHON),/usr/bin/python3) -m venv --system-site-packages bin/ray-$(RAY_VERSION)
	bin/ray-$(RAY_VERSION)/bin/pip install --quiet --disable-pip-version-check ray==$(RAY_VERSION)

demo: build ## a small dataset, mounted, read by PyTorch: what each view costs (ARGS=-v: and what the daemon counted)
	@scripts/setup demo
	@bench/demo/run $(ARGS)

demo-cluster: build $(VERSITYGW) $(RAY) ## a bucket and Ray on this machine: plan, pack while a worker is killed, commit, train: make demo-cluster PICTURES=DIR
	@scripts/setup cluster
	@GO=$(GO) PICTURES='$(PICTURES)' bench/demo/cluster $(dir $(RAY))python $(VERSITYGW)

# -count 1: go test cannot know that internal/e2e runs the program, and go list, and would
# take an old result for the new one.
check: ## vet, build, and the tests that neither mount nor take long: while you work
	@scripts/setup test
	$(GO) vet ./...
	$(GO) build ./...
	$(GO) test -short ./...
	$(GO) test -short -count 1 ./internal/e2e

# The race detector watches what goroutines share, and makes everything take ten times as
# long. bin/race/pipefs has it; the tests of USERS, which only look at what the program does, run
# that one and are compiled without. Scripts of cmd/pipefs, hundreds of short commands, run without it, and so do the tests of
# DAMAGE, which break one operation or byte after the other. The packages of ALONE start no goroutines, or few: there it
# watches only the tests of MANY. internal/serve lends the codecs memory, and has them watched; everybody else has the packages
# of CODECS compiled without it. At its end a process waits for what others may still do, a second if nobody says otherwise.
# go vet looks at all of it before, and go test not once more in each variant.
USERS  := /(cmd/pipefs|internal/e2e|internal/e2e/walk|python|bench)$$
ALONE  := /(transcode|transcode/.*|bench/report|internal/index|l3gpu/internal/sim/pygpu)$$
MANY   := -run 'Concurrent|CPU|NoAllocation|TestIndex$$' ./transcode/jpeg ./transcode/l3 ./transcode/raster/internal/resample ./internal/index
DAMAGE := 'EveryOperation|CrashesOfTheFirstRun|Faults|Damage|Flips|Salvage|Truncated|TestCompact|TestKill|DoesNotAllocate' ./store ./internal/packing
CODECS := github.com/pipefs/pipefs/transcode/... github.com/pipefs/pipefs/bench/mssim github.com/pipefs/pipefs/internal/pictures github.com/klauspost/compress/flate hash/adler32
WATCHED := -race $(CODECS:%=-gcflags=%=-race=false)
COUNT1 := -count 1 -vet=off -parallel 4 -timeout 20m
# What has no race detector is compiled as the program is, once for vet, tests, the linter and TestReadme.
test lint: export GOFLAGS = -trimpath
test: export GORACE = atexit_sleep_ms=10
test: export PIPEFS_PROGRAM = $(CURDIR)/bin/race/pipefs
test: $(VERSITYGW) ## every test, with the race detector where goroutines share something: before a commit
	@scripts/setup test
	CGO_ENABLED=0 $(GO) vet ./...
	$(GO) build $(WATCHED) -o bin/race/pipefs ./cmd/pipefs
	$(GO) run ./internal/testrun \
		$(COUNT1) $$($(GO) list ./... | grep -E '$(USERS)|$(ALONE)') + $(COUNT1) -run $(DAMAGE) + \
		$(COUNT1) $(WATCHED) $$($(GO) list ./... | grep -vE '$(USERS)|$(ALONE)|/(store|internal/(packing|serve))$$|/bench/mssim$$') + \
		$(COUNT1) $(WATCHED) -skip $(DAMAGE) + \
		$(COUNT1) -race ./internal/serve ./bench/mssim + $(COUNT1) -race $(MANY)
	CGO_ENABLED=0 $(GO) -C bench/research test -vet=all ./...
	GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/pipefs

test-cluster: build $(VERSITYGW) $(RAY) ## packing by Ray, on two machines that share no files (root): make test-cluster TESTS='fails machines'
	@scripts/setup cluster
	@$(dir $(RAY))python python/tests/cluster.py bin/pipefs $(TESTS)

lint: $(GOLANGCI) ## formatting, static checks, and which package may import which
	@scripts/setup lint
	CGO_ENABLED=0 $(GOLANGCI) run ./...
	CGO_ENABLED=0 $(GO) -C bench/research vet ./...
	shellcheck -x scripts/* $$(grep -lE '^#!.*bash|shellcheck shell=bash' packaging/test/*) packaging/torchrun/train packaging/slurm/*.sbatch bench/demo/run bench/demo/cluster bench/research/l3/run .ci/run

$(GOLANGCI):
	GOFLAGS= GOBIN=$(CURDIR)/bin/tools $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

size: ## lines, files, packages, words and modules: what has to be read
	@GO=$(GO) scripts/size

way: ## which functions run between LOOKUP of bmp/a.bmp in a store and the reply to READ, and that they become no more
	GOFLAGS=-trimpath $(GO) test -count 1 -v -run TestWay ./internal/e2e -way

bench: $(VERSITYGW) ## benchmarks in Go's format: make bench BENCH=Read COUNT=10
	@scripts/setup test
	$(GO) test -run '^$$' -bench '$(BENCH)' -count $(COUNT) -benchmem ./...

# What only developers run is a module of its own.
research:
	@mkdir -p bin/research
	$(GO) -C bench/research build -o $(CURDIR)/bin/research/ ./...

bench-l3: ## L3 beside other lossless codecs: make bench-l3 PICTURES=DIR ARGS='--rounds=9 --format=markdown'
	@scripts/setup bench-l3
	@GO=$(GO) PICTURES="$(PICTURES)" bench/research/l3/run $(ARGS)

bench-mix: build research ## mixes of materialized and encoded samples at several speeds of the disk (root): make bench-mix ARGS='-rounds 8'
	@scripts/setup test
	bin/research/mix -program bin/pipefs -out bin/bench-mix $(ARGS)

bench-curves: build research ## loss of a training through ImageFolder and through epoch views (5 minutes): make bench-curves PICTURES=DIR ARGS='-seeds 5 -epochs 40'
	@scripts/setup demo
	bin/research/curves -program bin/pipefs $(if $(PICTURES),-pictures '$(PICTURES)') $(ARGS)

bench-epochs: build research ## epoch views on a slow disk (root), by eight ranks, and at the first batch: make bench-epochs PICTURES=DIR ARGS='-copies=24 slow'
	bin/research/epochs -program bin/pipefs -pictures '$(PICTURES)' $(ARGS)

bench-s3: $(VERSITYGW) ## buckets that are 20 ms away, beside other programs that mount them and a client of the bucket: make bench-s3 BENCH=BucketReads
	@scripts/setup bench-s3
	$(GO) test -run '^$$' -bench '$(if $(filter .,$(BENCH)),Bucket,$(BENCH))' -benchtime 3x -timeout 60m ./bench

bench-cluster: build $(VERSITYGW) $(RAY) ## four Ray workers beside one process, and kills: make bench-cluster PICTURES=DIR ARGS='--rounds 3'
	@scripts/setup cluster
	@$(dir $(RAY))python bench/research/cluster/run.py --pictures "$(PICTURES)" $(ARGS)

bench-peers: build ## pipefs beside other loaders, which it installs (9 GB): make bench-peers PICTURES=DIR ARGS='--rounds=9 --only=ffcv'
	@scripts/setup peers
	@GO=$(GO) $(or $(PYTHON),/usr/bin/python3) bench/research/peers/run.py $(if $(PICTURES),--pictures "$(PICTURES)") $(ARGS)

test-loaders: ## other people's loaders, which it installs (10 GB), find in each view what docs/generated/loaders.md says: make test-loaders ARGS=-update-loaders
	@scripts/setup loaders
	@GO=$(GO) scripts/test-loaders $(ARGS)

reproduce: build research ## tables and figures of the four papers, again (root, 30 minutes): make reproduce PICTURES=DIR ARGS='-only pcr-table1'
	@scripts/setup reproduce
	bin/research/reproduce -program bin/pipefs $(if $(PICTURES),-pictures '$(PICTURES)') $(ARGS)

ptx: ## l3gpu/kernel/l3.*.ptx.gz, the program for GPUs, from its source
	@scripts/ptx

fuzz: ## every fuzz target for FUZZTIME
	@GO=$(GO) FUZZTIME=$(FUZZTIME) scripts/fuzz

soak: $(VERSITYGW) ## long tests, and docs/reliability.md from what all runs did: make soak SOAK=MINUTES ONLY=ROW
	@scripts/setup test
	CGO_ENABLED=0 $(GO) run ./internal/soak -minutes $(SOAK) -only '$(ONLY)'

clean:
	rm -rf bin
