package main

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
	for module, staging := range map[string]int{newest: 33, newest + "-1.36": 33, newest + "-1.35": 31} {
		data, err := os.ReadFile(b.pinFile(module))
		if err != nil {
			t.Fatal(err)
		}
		file, err := modfile.Parse("go.mod", data, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := "v0" + strings.TrimPrefix(b.pinned[module]["k8s.io/kubernetes"], "v1")
		for _, r := range file.Replace {
			if r.Old.Path != r.New.Path || r.New.Version != want {
				t.Errorf("%s: %s is replaced by %s %s, not by %s", module, r.Old.Path, r.New.Path, r.New.Version, want)
			}
		}
		if len(file.Replace) != staging {
			t.Errorf("%s: %d staging modules are replaced, not %d", module, len(file.Replace), staging)
		}
	}
}

func TestOlderKubernetesAreTheTwoMinorsBeforeTheNewest(t *testing.T) {
	b := realPins(t)
	minor, err := strconv.Atoi(strings.Split(b.kubernetesVersion(), ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("1.%d", minor-1), fmt.Sprintf("1.%d", minor-2)}
	if diff := cmp.Diff(want, olderKubernetes()); diff != "" {
		t.Errorf("older minors (-want +got):\n%s", diff)
	}
	for _, older := range olderKubernetes() {
		if version := b.pinned[newest+"-"+older]["k8s.io/kubernetes"]; !strings.HasPrefix(version, "v"+older+".") {
			t.Errorf("the module of %s pins %s", older, version)
		}
	}
}

func TestPinnedKubernetesHasTheMinorOfTheProduct(t *testing.T) {
	b := realPins(t)
	product, err := readPins(filepath.Join(b.repo, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	minor := strings.Split(product["k8s.io/api"], ".")[1]
	if !strings.HasPrefix(b.kubernetesVersion(), "v1."+minor+".") {
		t.Errorf("the cluster is %s, the product is built against %s", b.kubernetesVersion(), product["k8s.io/api"])
	}
}

func TestEveryProgramIsAPinnedTool(t *testing.T) {
	b := realPins(t)
	for _, p := range listPrograms() {
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

// sampleNetwork is not the one that a cluster gets first.
func sampleNetwork() network {
	return network{Prefix: netip.MustParsePrefix("172.30.0.0/16"), file: "/net"}
}

// sampleBuilder builds into a temporary folder, with versions that don't exist.
func sampleBuilder(t *testing.T, progress io.Writer) builder {
	t.Helper()
	dir := t.TempDir()
	f := folders{repo: filepath.Join(dir, "repo"), cache: filepath.Join(dir, "cache"),
		state: filepath.Join(dir, "state"), name: "csenv", net: sampleNetwork(), node: firstNode(sampleNetwork())}
	b := builder{folders: f, progress: progress, pinned: map[string]pins{
		"kubernetes": {"k8s.io/kubernetes": "v1.2.3", "go.etcd.io/etcd/server/v3": "v3.4.5",
			"github.com/coredns/coredns": "v1.6.7"},
		"kubernetes-1.36": {"k8s.io/kubernetes": "v1.36.9"},
	}}
	for module := range b.pinned {
		if err := os.MkdirAll(filepath.Dir(b.pinFile(module)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestLdflagsStampTheVersionOfTheModule(t *testing.T) {
	b := sampleBuilder(t, io.Discard)
	stamp := "k8s.io/component-base/version."
	for module, want := range map[string]string{
		"kubernetes":      stamp + "gitVersion=v1.2.3 -X " + stamp + "gitMajor=1 -X " + stamp + "gitMinor=2",
		"kubernetes-1.36": stamp + "gitVersion=v1.36.9 -X " + stamp + "gitMajor=1 -X " + stamp + "gitMinor=36",
	} {
		if got := b.ldflags(module); got != "-s -w -X "+want {
			t.Errorf("%s: %s", module, got)
		}
	}
}

// CoreDNS has the plugins of the Corefile: of another it says "unknown directive" and ends.
func TestCoreDNSHasThePluginsOfItsConfiguration(t *testing.T) {
	words := func(file, pattern string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		return found
	}
	used := words("config/Corefile", `(?m)^\t([a-z]+)`)
	if diff := cmp.Diff(used, words("kubernetes/coredns/main.go", `coredns/plugin/([a-z]+)"`)); diff != "" {
		t.Errorf("plugins (-configured +compiled):\n%s", diff)
	}
}

// fakeGo appends the arguments of a build to the log and writes the programs into the folder of -o.
const fakeGo = `[ "$1" = build ] || exit 1
echo "$CGO_ENABLED $(basename "$PWD") $*" >> "$LOG"
while [ "$1" != -o ]; do shift; done
mkdir -p "$2" && cd "$2" && shift 2
for package; do
	case "$package" in */etcd/server/v3) echo etcd > server ;; *) echo program > "$(basename "$package")" ;; esac
done`

func TestEnsureBuildsOnceAndTogether(t *testing.T) {
	calls := fakePrograms(t, map[string]string{"go": fakeGo})
	var progress bytes.Buffer
	b := sampleBuilder(t, &progress)
	for range 2 {
		if err := b.ensure(t.Context(), "kubectl", "etcd", "coredns"); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(b.cache, "bin")
	want := "0 kubernetes build -v -trimpath -buildvcs=false -gcflags=k8s.io/...=-dwarf=false " +
		"-gcflags=go.etcd.io/...=-dwarf=false -ldflags " + b.ldflags("kubernetes") + " -o " + bin +
		"/building/ go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/kubectl " +
		"github.com/csenv/csenv/hack/cluster/kubernetes/coredns\n"
	if diff := cmp.Diff(want, calls.log(t)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	entries, _ := filepath.Glob(filepath.Join(bin, "*", "*"))
	kubernetes := bin + "/kubernetes-v1.2.3-etcd-v3.4.5"
	if diff := cmp.Diff([]string{bin + "/coredns-v1.6.7/coredns", kubernetes + "/etcd", kubernetes + "/kubectl"},
		entries); diff != "" {
		t.Errorf("built (-want +got):\n%s", diff)
	}
	if got := progress.String(); !strings.Contains(got, "building etcd v3.4.5, kubectl v1.2.3, coredns v1.6.7\n") {
		t.Errorf("said %q", got)
	}
	// A program that is missing is built alone.
	if err := b.ensure(t.Context(), "kubelet", "etcd"); err != nil {
		t.Fatal(err)
	}
	log := calls.log(t)
	if strings.Count(log, "\n") != 2 || !strings.HasSuffix(log, "/building/ k8s.io/kubernetes/cmd/kubelet\n") {
		t.Errorf("calls:\n%s", log)
	}
}

func TestBuildState(t *testing.T) {
	for want, at := range map[string]struct{ begun, total int }{
		"finding modules and packages, 1m30s": {0, 3000},
		"12 packages, 1m30s":                  {12, 0},
		"[######..............] 900 of 3000 packages, 1m30s, about 3m30s left": {900, 3000},
		"[....................] 149 of 3000 packages, 1m30s":                   {149, 3000},
		"linking, 1m30s": {3000, 3000},
	} {
		if got := buildState(at.begun, at.total, 90*time.Second); got != want {
			t.Errorf("%d of %d: %q, want %q", at.begun, at.total, got, want)
		}
	}
}

func TestPackageLogCountsPackages(t *testing.T) {
	var log packageLog
	for _, text := range []string{"go: downloading k8s.io/api v0.37.1\n", "net/http\nk8s.io/api/core/v1\n"} {
		if _, err := log.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if log.lines() != 2 || !strings.HasPrefix(log.text(), "go: downloading ") {
		t.Errorf("%d packages, %q", log.lines(), log.text())
	}
}

func TestFailedBuildLeavesNoBinary(t *testing.T) {
	fakePrograms(t, map[string]string{"go": fakeGo + "\necho broken >&2\nexit 1"})
	b := sampleBuilder(t, io.Discard)
	err := b.ensure(t.Context(), "coredns")
	if err == nil || !strings.Contains(err.Error(), "building coredns") || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v", err)
	}
	if isRegularFile(b.find("coredns")) {
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
	if strings.Count(all.String(), "\n") != len(listPrograms()) ||
		!strings.Contains(all.String(), "etcd\t"+b.find("etcd")+"\n") {
		t.Errorf("all: %q", all.String())
	}
	if err := b.print(t.Context(), io.Discard, []string{"docker"}); err == nil {
		t.Error("no error for an unknown name")
	}
}

func TestEnvtestAssets(t *testing.T) {
	fakePrograms(t, map[string]string{"go": fakeGo})
	b := sampleBuilder(t, io.Discard)
	dir, err := b.envtestAssets(t.Context(), "")
	if err != nil || dir != b.folder("kubernetes") {
		t.Fatalf("%s, %v", dir, err)
	}
	for name, want := range map[string]bool{"etcd": true, "kube-apiserver": true, "kube-controller-manager": true,
		"kubelet": false} {
		if isRegularFile(b.find(name)) != want {
			t.Errorf("%s is built: %v, want %v", name, !want, want)
		}
	}
}

func TestEnvtestAssetsOfAnOlderKubernetes(t *testing.T) {
	calls := fakePrograms(t, map[string]string{"go": fakeGo})
	b := sampleBuilder(t, io.Discard)
	for range 2 {
		dir, err := b.envtestAssets(t.Context(), "1.36")
		if err != nil || dir != filepath.Join(b.cache, "bin", "kubernetes-v1.36.9-etcd-v3.4.5") {
			t.Fatalf("%s, %v", dir, err)
		}
		for _, name := range []string{"etcd", "kubectl", "kube-apiserver", "kube-controller-manager"} {
			if !isRegularFile(filepath.Join(dir, name)) {
				t.Errorf("%s is missing", name)
			}
		}
	}
	log := calls.log(t)
	if strings.Count(log, "\n") != 2 || strings.Count(log, "0 kubernetes-1.36 build ") != 1 ||
		strings.Count(log, "gitVersion=v1.36.9 ") != 1 {
		t.Errorf("calls:\n%s", log)
	}
	_, err := b.envtestAssets(t.Context(), "1.20")
	if err == nil || !strings.Contains(err.Error(), `no Kubernetes "1.20" is pinned here: use 1.36, 1.35, or nothing`) {
		t.Errorf("error %v", err)
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
