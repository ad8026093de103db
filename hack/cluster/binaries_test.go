package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
)

// realPins reads the pinned modules of this checkout.
func realPins(t *testing.T) builder {
	t.Helper()
	b, err := newBuilder(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPinnedStagingModulesFollowKubernetes(t *testing.T) {
	b := realPins(t)
	data, err := os.ReadFile(b.pinFile("kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "v0" + strings.TrimPrefix(b.kubernetesVersion(), "v1")
	for _, r := range file.Replace {
		if r.Old.Path != r.New.Path || r.New.Version != want {
			t.Errorf("%s is replaced by %s %s, not by %s", r.Old.Path, r.New.Path, r.New.Version, want)
		}
	}
	if len(file.Replace) != 33 {
		t.Errorf("%d staging modules are replaced, Kubernetes has 33", len(file.Replace))
	}
}

func TestPinnedKubernetesHasTheMinorOfTheProduct(t *testing.T) {
	b := realPins(t)
	product, err := readPins(filepath.Join(b.repo, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSuffix(envtestVersion(product["k8s.io/api"]), "x")
	if !strings.HasPrefix(b.kubernetesVersion(), "v"+want) {
		t.Errorf("the cluster is %s, the product is built against %s", b.kubernetesVersion(), product["k8s.io/api"])
	}
}

func TestEveryProgramIsAPinnedTool(t *testing.T) {
	b := realPins(t)
	for _, p := range programs() {
		data, err := os.ReadFile(b.pinFile(p.module))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), p.pkg+"\n") {
			t.Errorf("%s is not a tool of %s", p.pkg, b.pinFile(p.module))
		}
		if b.versionOf(p) == "" || !strings.Contains(b.path(p), b.versionOf(p)) {
			t.Errorf("%s has version %q and path %s", p.name, b.versionOf(p), b.path(p))
		}
	}
}

// sampleBuilder builds into a temporary folder, with versions that don't exist.
func sampleBuilder(t *testing.T, progress io.Writer) builder {
	t.Helper()
	dir := t.TempDir()
	f := folders{repo: filepath.Join(dir, "repo"), cache: filepath.Join(dir, "cache"),
		state: filepath.Join(dir, "state")}
	b := builder{folders: f, progress: progress, pinned: map[string]pins{
		"kubernetes": {"k8s.io/kubernetes": "v1.2.3", "go.etcd.io/etcd/server/v3": "v3.4.5"},
		"coredns":    {"github.com/coredns/coredns": "v1.6.7"},
	}}
	for module := range b.pinned {
		if err := os.MkdirAll(filepath.Dir(b.pinFile(module)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestLdflagsStampKubernetesOnly(t *testing.T) {
	b := sampleBuilder(t, io.Discard)
	stamp := "k8s.io/component-base/version."
	want := "-s -w -X " + stamp + "gitVersion=v1.2.3 -X " + stamp + "gitMajor=1 -X " + stamp + "gitMinor=2"
	for _, p := range programs() {
		expected := want
		if p.name == "etcd" || p.name == "coredns" {
			expected = "-s -w"
		}
		if got := b.ldflags(p); got != expected {
			t.Errorf("%s: %s", p.name, got)
		}
	}
}

// fakeGo appends its arguments to the log and writes a file at the path of -o.
const fakeGo = `echo "$CGO_ENABLED $(basename "$PWD") $*" >> "$LOG"
while [ $# -gt 1 ]; do [ "$1" = -o ] && echo program > "$2"; shift; done`

func TestEnsureBuildsOnceAndInOrder(t *testing.T) {
	calls := fakePrograms(t, map[string]string{"go": fakeGo})
	var progress bytes.Buffer
	b := sampleBuilder(t, &progress)
	for range 2 {
		if err := b.ensure(t.Context(), "kubectl", "etcd"); err != nil {
			t.Fatal(err)
		}
	}
	temp := filepath.Join(b.cache, "bin", "kubernetes-v1.2.3-etcd-v3.4.5")
	etcd := "0 kubernetes build -trimpath -buildvcs=false -ldflags -s -w -o " + temp +
		"/etcd.building go.etcd.io/etcd/server/v3\n"
	log := calls.log(t)
	if !strings.HasPrefix(log, etcd) || strings.Count(log, "\n") != 2 ||
		!strings.HasSuffix(log, "k8s.io/kubernetes/cmd/kubectl\n") {
		t.Errorf("calls:\n%s", log)
	}
	entries, _ := filepath.Glob(filepath.Join(temp, "*"))
	if diff := cmp.Diff([]string{temp + "/etcd", temp + "/kubectl"}, entries); diff != "" {
		t.Errorf("built (-want +got):\n%s", diff)
	}
	if !strings.Contains(progress.String(), "building etcd v3.4.5 (a first build takes about") {
		t.Errorf("said %q", progress.String())
	}
}

func TestFailedBuildLeavesNoBinary(t *testing.T) {
	fakePrograms(t, map[string]string{"go": fakeGo + "\necho broken >&2\nexit 1"})
	b := sampleBuilder(t, io.Discard)
	err := b.ensure(t.Context(), "coredns")
	if err == nil || !strings.Contains(err.Error(), "building coredns") || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v", err)
	}
	if built(b.find("coredns")) {
		t.Error("a failed build was not repeated")
	}
}

func TestPrintPaths(t *testing.T) {
	fakePrograms(t, map[string]string{"go": fakeGo})
	b := sampleBuilder(t, io.Discard)
	var one, all bytes.Buffer
	if err := b.print(t.Context(), &one, []string{"kubectl"}); err != nil {
		t.Fatal(err)
	}
	if one.String() != b.find("kubectl")+"\n" {
		t.Errorf("one: %q", one.String())
	}
	if err := b.print(t.Context(), &all, nil); err != nil {
		t.Fatal(err)
	}
	if strings.Count(all.String(), "\n") != len(programs()) ||
		!strings.Contains(all.String(), "etcd\t"+b.find("etcd")+"\n") {
		t.Errorf("all: %q", all.String())
	}
	if err := b.print(t.Context(), io.Discard, []string{"docker"}); err == nil {
		t.Error("no error for an unknown name")
	}
}

func TestEnvtestVersion(t *testing.T) {
	for api, want := range map[string]string{"v0.37.2": "1.37.x", "v0.9.0-alpha.1": "1.9.x", "": "latest"} {
		if got := envtestVersion(api); got != want {
			t.Errorf("envtestVersion(%q) = %s, want %s", api, got, want)
		}
	}
}

// fakeDownload imitates the go command. Its setup-envtest succeeds or fails.
const fakeDownload = `case "$*" in
*" use "*) echo "use $*" >> "$LOG"; [ -n "$OFFLINE" ] && { echo "no route to host" >&2; exit 1; }; echo /downloaded;;
tool*) ;;
*) ` + fakeGo + `;;
esac`

func TestEnvtestAssets(t *testing.T) {
	tests := map[string]struct {
		offline, have bool
		want          string // "" is the folder of built binaries
		downloads     int
	}{
		"built already":         {have: true},
		"downloads":             {want: "/downloaded", downloads: 2},
		"builds and remembers":  {offline: true, downloads: 1},
		"built, though offline": {offline: true, have: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			calls := fakePrograms(t, map[string]string{"go": fakeDownload})
			if test.offline {
				t.Setenv("OFFLINE", "yes")
			}
			b := sampleBuilder(t, io.Discard)
			if err := writeFile(filepath.Join(b.repo, "go.mod"), []byte("module m\nrequire k8s.io/api v0.2.9\n"),
				0o644); err != nil {
				t.Fatal(err)
			}
			if test.have {
				if err := b.ensure(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			want := test.want
			if want == "" {
				want = b.folder("kubernetes")
			}
			// The second call doesn't repeat a failed download, even if a built binary is missing.
			for range 2 {
				got, err := envtestAssets(t.Context(), b)
				if err != nil || got != want {
					t.Fatalf("envtestAssets = %s, %v; want %s", got, err, want)
				}
				if !test.have {
					_ = os.Remove(b.find("etcd"))
				}
			}
			if n := strings.Count(calls.log(t), "setup-envtest use 1.2.x -p path"); n != test.downloads {
				t.Errorf("%d downloads, want %d:\n%s", n, test.downloads, calls.log(t))
			}
		})
	}
}

func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		text string
		n    int
		want string
	}{{"a\nb\nc\n", 2, "b\nc"}, {"a", 5, "a"}, {"", 3, ""}} {
		if got := lastLines(test.text, test.n); got != test.want {
			t.Errorf("lastLines(%q, %d) = %q", test.text, test.n, got)
		}
	}
}
