package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/csenv/csenv/hack/image"
)

// local runs the node directly on this machine.
type local struct {
	builder
	reason string
}

func (l local) where() folders     { return l.folders }
func (l local) kubeconfig() string { return l.at("kubeconfig") }

func (l local) kubectl(ctx context.Context) (string, error) {
	return l.find("kubectl"), l.ensure(ctx, "kubectl")
}

// up starts the first node, unless it is healthy, and then the second one if it is wanted.
func (l local) up(ctx context.Context, nodes int, wanted string) error {
	if err := checkMachine(); err != nil {
		return err
	}
	addresses, err := machineAddresses()
	if err != nil {
		return err
	}
	if err := l.settle(wanted, addresses); err != nil {
		return err
	}
	if err := l.upFirst(ctx); err != nil || nodes == 1 {
		return err
	}
	return l.upSecond(ctx)
}

// settle gives the cluster its network, which it keeps until down. It overlaps none of the
// addresses.
func (f *folders) settle(wanted string, addresses []address) (err error) {
	if isRegularFile(f.at("network")) {
		if wanted != "" && wanted != f.net.String() {
			return fmt.Errorf("the cluster has the network %s: run down before you give it another", f.net)
		}
		return nil
	}
	if f.net.Prefix, err = chooseNetwork(wanted, addresses); err != nil {
		return err
	}
	f.node = firstNode(f.net)
	return writeFile(f.at("network"), []byte(f.net.String()+"\n"), 0o644)
}

// upFirst starts the first node, unless it is healthy. Otherwise it assumes that the machine lost
// power: it stops all processes and clears runtime files, but keeps API objects, images and
// certificates.
func (l local) upFirst(ctx context.Context) error {
	if l.settles(ctx) {
		logProgressf(l.progress, "the cluster is up: nothing to do")
		return nil
	}
	start := time.Now()
	logProgressf(l.progress, "running the cluster straight on this machine: %s", l.reason)
	if err := l.prepare(ctx); err != nil {
		return err
	}
	if err := l.start(ctx); err != nil {
		return err
	}
	logProgressf(l.progress, "the cluster is up after %s", time.Since(start).Round(100*time.Millisecond))
	return nil
}

// settles reports whether the cluster is healthy, or becomes healthy while all its processes run.
// On a busy machine checks may time out, which is no reason to restart the cluster.
func (l local) settles(ctx context.Context) bool {
	told := false
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			unhealthy := l.healthy(ctx)
			if unhealthy == nil {
				return true, nil
			}
			if err := l.pinnedProcesses(); err != nil {
				return false, err
			}
			if !told {
				logProgressf(l.progress, "every process runs; giving them half a minute to settle: %s",
					lastLines(unhealthy.Error(), 1))
				told = true
			}
			return false, nil
		})
	return err == nil
}

// prepare does everything that must precede the first process.
func (l local) prepare(ctx context.Context) error {
	if err := ensurePackages(ctx, l.progress); err != nil {
		return err
	}
	if err := l.ensure(ctx); err != nil {
		return err
	}
	if isRegularFile(l.at("host.json")) {
		logProgressf(l.progress, "an earlier cluster is not healthy: removing its remaining processes; API objects, "+
			"images and certificates are kept, pods are started again")
	}
	if err := l.clearRuntime(ctx); err != nil {
		return err
	}
	logProgressf(l.progress, "preparing certificates, configuration and network in %s", l.state)
	return l.writeFiles(ctx)
}

func (l local) writeFiles(ctx context.Context) error {
	if err := writeFile(l.at("provider"), []byte(providerLocal+"\n"), 0o644); err != nil {
		return err
	}
	if err := prepareHost(ctx, l.folders); err != nil {
		return err
	}
	if err := errors.Join(l.net.make(ctx), l.node.makeGroups()); err != nil {
		return err
	}
	if err := ensurePKI(l.at("pki"), l.net); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	s, err := machineSettings(l.folders)
	if err != nil {
		return err
	}
	return writeConfig(s)
}

// clearRuntime stops every process of the cluster and removes the objects that only a running node
// needs: pods, their network and containerd's runtime state.
func (l local) clearRuntime(ctx context.Context) error {
	if err := l.second().clearNode(ctx); err != nil {
		return err
	}
	if err := l.stop(ctx); err != nil {
		return err
	}
	if isRegularFile(l.at("network")) { // or the network may be another cluster's
		if err := l.net.remove(ctx); err != nil {
			return err
		}
		removePodGroups(l.node.group)
	}
	if err := unmountState(l.folders); err != nil {
		return err
	}
	for _, dir := range []string{l.at("node"), l.at("containerd", "state"), l.at("containerd", "containerd.sock")} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("clearing runtime state: %w", err)
		}
	}
	return nil
}

// stop stops the processes, clients before servers, etcd last.
func (l local) stop(ctx context.Context) error {
	components := func(names ...string) func(process) bool {
		return func(p process) bool { return slices.Contains(names, p.component) }
	}
	if err := stopProcesses(ctx, l.state, 5*time.Second, components(
		"kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns")); err != nil {
		return err
	}
	if err := killContainers(ctx, l.folders); err != nil {
		return err
	}
	// The shims are killed immediately: without their containers they have no state to save.
	shim := func(p process) bool { return p.component == "containerd" && !p.main() }
	if err := stopProcesses(ctx, l.state, 0, shim); err != nil {
		return err
	}
	for _, name := range []string{"containerd", "kube-apiserver", "etcd"} {
		if err := stopProcesses(ctx, l.state, 10*time.Second, components(name)); err != nil {
			return err
		}
	}
	if err := stopProcesses(ctx, l.state, time.Second, func(process) bool { return true }); err != nil {
		return err
	}
	// A second call kills containers that were starting during the first one.
	return killContainers(ctx, l.folders)
}

// start starts every component after its dependencies are ready.
func (l local) start(ctx context.Context) error {
	begin := time.Now().Truncate(time.Second)
	logProgressf(l.progress, "starting etcd, containerd and kube-apiserver")
	if err := l.startServers(ctx); err != nil {
		return err
	}
	logProgressf(l.progress, "starting kube-controller-manager, kube-scheduler, kube-proxy, CoreDNS and the kubelet")
	if err := l.startClients(ctx); err != nil {
		return err
	}
	logProgressf(l.progress, "waiting for the node, DNS and the default service account")
	return l.awaitClients(ctx, begin)
}

func (l local) startServers(ctx context.Context) error {
	if err := l.startComponents(0, "etcd", "containerd", "kube-apiserver"); err != nil {
		return err
	}
	if err := l.await(ctx, "containerd", 30*time.Second, l.containerdAnswers); err != nil {
		return err
	}
	logProgressf(l.progress, "importing the pause image")
	if err := l.loadPause(ctx); err != nil {
		return err
	}
	// The API server's readiness includes etcd's.
	return l.await(ctx, "kube-apiserver", 90*time.Second, l.apiReady, "etcd")
}

func (l local) startClients(ctx context.Context) error {
	if _, err := l.run(ctx, "apply", "--server-side", "-f", l.at("config", "coredns.yaml")); err != nil {
		return fmt.Errorf("granting CoreDNS its rights: %w", err)
	}
	runtime, running := l.mainProcess("containerd")
	if !running {
		return fmt.Errorf("containerd stopped; %s", readLogTail(l.folders, "containerd"))
	}
	return l.startComponents(runtime.pid, "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy",
		"coredns")
}

func (l local) startComponents(containerdPID int, names ...string) error {
	for _, name := range names {
		argv, err := l.commandLine(name, containerdPID)
		if err != nil {
			return err
		}
		if err := startProcess(l.folders, name, argv); err != nil {
			return err
		}
	}
	return nil
}

// commandLine renders a component's command line from config/components. Only the kubelet's depends
// on containerd's process id.
func (b builder) commandLine(component string, containerdPID int) ([]string, error) {
	text, err := settings{folders: b.folders, Program: b.find, ContainerdPID: containerdPID}.render("components")
	if err != nil {
		return nil, err
	}
	var argv []string
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case section == component:
			argv = append(argv, line)
		}
	}
	if len(argv) == 0 {
		return nil, fmt.Errorf("config/components has no command line for %s", component)
	}
	return b.net.inside(argv...), nil
}

// awaitClients waits until the node is usable. A Ready condition older than begin comes from a
// previous kubelet.
func (l local) awaitClients(ctx context.Context, begin time.Time) error {
	ready := func(ctx context.Context) error { return l.nodeReady(ctx, nodeName, begin) }
	if err := l.await(ctx, "kubelet", time.Minute, ready, "containerd", "kube-apiserver"); err != nil {
		return err
	}
	if err := l.await(ctx, "kube-controller-manager", time.Minute, l.defaultAccount); err != nil {
		return err
	}
	if err := l.await(ctx, "kube-proxy", time.Minute, l.proxyForwards); err != nil {
		return err
	}
	return l.await(ctx, "coredns", time.Minute, l.dnsAnswers)
}

func (l local) loadPause(ctx context.Context) error {
	program, err := buildProgram(ctx, filepath.Join(l.repo, "hack"), io.Discard, "./cluster/pause", "")
	if err != nil {
		return err
	}
	pause, err := imageOf([]image.File{{Path: "pause", Content: program, Mode: 0o755}}, "/pause")
	if err != nil {
		return err
	}
	_, err = l.importImage(ctx, pause, pauseImage)
	return err
}

func (l local) load(ctx context.Context, name string) (string, error) {
	if err := l.containerdAnswers(ctx); err != nil {
		return "", fmt.Errorf("the cluster is not up, run up first: %w", err)
	}
	full, err := image.FullName(name)
	if err != nil {
		return "", err
	}
	start := time.Now()
	built, err := csenvImage(ctx, l.repo, l.progress)
	if err != nil {
		return "", err
	}
	digest, err := l.importEverywhere(ctx, built, full)
	if err != nil {
		return "", err
	}
	logProgressf(l.progress, "the node has %s after %s", name, time.Since(start).Round(100*time.Millisecond))
	return digest, nil
}

func (l local) loadReleased(ctx context.Context, dir string) (string, error) {
	if err := l.containerdAnswers(ctx); err != nil {
		return "", fmt.Errorf("the cluster is not up, run up first: %w", err)
	}
	released, names, err := image.FindRelease(dir)
	if err != nil {
		return "", err
	}
	digest, err := l.importEverywhere(ctx, released, names...)
	if err != nil {
		return "", err
	}
	logProgressf(l.progress, "the node has %s", strings.Join(names, " and "))
	return digest, nil
}

// importEverywhere imports an image or an index into the containerd of each node that runs.
func (l local) importEverywhere(ctx context.Context, content mutate.Appendable, fullNames ...string) (string, error) {
	digest, err := l.importImage(ctx, content, fullNames...)
	if err != nil {
		return "", err
	}
	if _, running := l.second().mainProcess("containerd"); running {
		if _, err := l.second().importImage(ctx, content, fullNames...); err != nil {
			return "", err
		}
	}
	return digest, nil
}

// importImage imports an image or an index into containerd, unless containerd already has it.
func (l local) importImage(ctx context.Context, content mutate.Appendable, fullNames ...string) (string, error) {
	digest, err := content.Digest()
	if err != nil {
		return "", err
	}
	there := true
	for _, full := range fullNames {
		listed, err := l.ctr(ctx, nil, "images", "list", "name=="+full)
		if err != nil {
			return "", err
		}
		there = there && strings.Contains(listed, digest.String())
	}
	if there {
		return digest.String(), nil
	}
	var archive bytes.Buffer
	if err := image.WriteArchive(&archive, content, fullNames...); err != nil {
		return "", err
	}
	_, err = l.ctr(ctx, archive.Bytes(), "images", "import", "-")
	return digest.String(), err
}

// down stops the cluster and removes everything that it created, except built binaries.
func (l local) down(ctx context.Context) error {
	if err := checkMachine(); err != nil {
		return err
	}
	record, err := readHostRecord(l.folders)
	if err != nil {
		return err
	}
	found, err := findProcesses(l.state)
	if err != nil {
		return err
	}
	if _, err := os.Stat(l.state); os.IsNotExist(err) && len(found) == 0 {
		logProgressf(l.progress, "nothing to do: there is no cluster in %s", l.state)
		return nil
	}
	logProgressf(l.progress, "stopping the cluster's processes")
	if err := l.clearRuntime(ctx); err != nil {
		return err
	}
	logProgressf(l.progress, "removing %s and putting the machine's settings back", l.state)
	if _, shared := l.otherCluster(); !shared {
		if err := restoreHost(record); err != nil {
			return err
		}
	}
	return l.remove()
}

func (l local) status(ctx context.Context, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "provider\tlocal (%s)\nkubernetes\t%s\n", l.reason, l.kubernetesVersion())
	running := 0
	for _, name := range componentNames() {
		p, found := l.mainProcess(name)
		if !found {
			fmt.Fprintf(table, "%s\tnot running\n", name)
			continue
		}
		running++
		fmt.Fprintf(table, "%s\tpid %d, up %s\n", name, p.pid, time.Since(p.started).Round(time.Second))
	}
	fmt.Fprintf(table, "cluster\t%s\nnetwork\t%s\n", l.verdict(ctx, running), l.net)
	if running > 0 {
		fmt.Fprintf(table, "kubeconfig\t%s\nlogs\t%s\n", l.kubeconfig(), filepath.Dir(l.logFile("etcd")))
	}
	fmt.Fprintf(table, "kubectl\t%s\n", l.find("kubectl"))
	return table.Flush()
}

func (l local) verdict(ctx context.Context, running int) string {
	switch {
	case running == 0 && isRegularFile(l.at("host.json")):
		return "nothing runs; an earlier cluster's state is there (up continues it, down removes it)"
	case running == 0:
		return "nothing runs"
	}
	if err := l.healthy(ctx); err != nil {
		return "not healthy (up repairs it): " + lastLines(err.Error(), 1)
	}
	return "healthy"
}
