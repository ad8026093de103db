package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	secondFolder  = "second" // of the state
	secondKubelet = "kubelet-2"
)

// node is one of the nodes of the local cluster, which share the machine's network.
type node struct {
	name  string
	ip    string // an address in the cluster's network
	pods  string // the network of its pods
	group string // the cgroup of its pods: a kubelet removes pods that it doesn't know
}

func firstNode(n network) node {
	return node{name: nodeName, ip: n.nodeIP(), pods: n.part(128, 22), group: "/" + n.id()}
}

func secondNode(n network) node {
	return node{name: nodeName + "-2", ip: n.secondIP(), pods: n.part(132, 22), group: "/" + n.id() + "-2"}
}

// second returns the second node: a containerd and a kubelet with their own folder, mounts and
// cgroup.
func (l local) second() local {
	l.state, l.node = l.at(secondFolder), secondNode(l.net)
	return l
}

// upSecond starts the second node, unless it is ready.
func (l local) upSecond(ctx context.Context) error {
	n := l.second()
	if _, running := n.mainProcess("kubelet"); running && l.nodeReady(ctx, n.node.name, time.Time{}) == nil {
		logProgressf(l.progress, "the second node is up: nothing to do")
		return nil
	}
	start := time.Now()
	if err := n.clearNode(ctx); err != nil {
		return err
	}
	if _, err := l.run(ctx, "delete", "node", n.node.name, "--ignore-not-found"); err != nil {
		return fmt.Errorf("deleting the lost node: %w", err)
	}
	if err := l.prepareSecond(ctx, n); err != nil {
		return fmt.Errorf("preparing the second node: %w", err)
	}
	if err := n.startComponents(0, "containerd"); err != nil {
		return err
	}
	if err := n.await(ctx, "containerd", 30*time.Second, n.containerdAnswers); err != nil {
		return err
	}
	if err := n.loadPause(ctx); err != nil {
		return err
	}
	runtime, _ := n.mainProcess("containerd")
	if err := n.startComponents(runtime.pid, "kubelet"); err != nil {
		return err
	}
	ready := func(ctx context.Context) error { return l.nodeReady(ctx, n.node.name, time.Time{}) }
	if err := n.await(ctx, "kubelet", time.Minute, ready, "containerd"); err != nil {
		return err
	}
	logProgressf(l.progress, "the second node is up after %s; load puts the image on it",
		time.Since(start).Round(100*time.Millisecond))
	return nil
}

// prepareSecond gives the second node its address, certificates, configuration and cgroup.
func (l local) prepareSecond(ctx context.Context, n local) error {
	address := l.net.inside("ip", "address", "replace", n.node.ip+nodePrefix, "dev", cable)
	if _, err := runProgram(ctx, address[0], address[1:]...); err != nil {
		return err
	}
	for _, path := range coveredFolders() {
		if err := os.MkdirAll(n.behind(path), 0o750); err != nil {
			return err
		}
	}
	for from, to := range map[string]string{"ca.crt": "ca.crt", secondKubelet + ".crt": "kubelet.crt",
		secondKubelet + ".key": "kubelet.key"} {
		data, err := os.ReadFile(l.at("pki", from))
		if err != nil {
			return fmt.Errorf("%w (a cluster of an earlier version must be removed first)", err)
		}
		if err := writeFile(n.at("pki", to), data, 0o600); err != nil {
			return err
		}
	}
	if err := n.node.makeGroups(); err != nil {
		return err
	}
	s, err := machineSettings(n.folders)
	if err != nil {
		return err
	}
	return writeNodeConfig(s)
}

// makeGroups makes the node's cgroups.
func (n node) makeGroups() error {
	for _, root := range cgroupRoots() {
		if err := makeGroup(filepath.Join(root, n.group)); err != nil {
			return err
		}
	}
	return nil
}

// makeGroup makes a cgroup. A new cpuset of version 1 has neither processors nor memory.
func makeGroup(path string) error {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return err
	}
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		all, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			continue // another controller, or version 2
		}
		if err := os.WriteFile(filepath.Join(path, name), all, 0o600); err != nil { //nolint:gosec // two files
			return err
		}
	}
	return nil
}

// cgroupRoots lists the root of every hierarchy: one of version 2, or several of version 1.
func cgroupRoots() []string {
	const root = "/sys/fs/cgroup"
	if isRegularFile(filepath.Join(root, "cgroup.controllers")) {
		return []string{root}
	}
	found, _ := filepath.Glob(root + "/*/cgroup.procs")
	for i, file := range found {
		found[i] = filepath.Dir(file)
	}
	return found
}

// clearNode ends the node's processes and containers, and removes their runtime files.
func (l local) clearNode(ctx context.Context) error {
	all := func(process) bool { return true }
	if err := stopProcesses(ctx, l.state, time.Second, all); err != nil {
		return err
	}
	if err := errors.Join(killContainers(ctx, l.folders), unmountState(l.folders)); err != nil {
		return err
	}
	removePodGroups(l.node.group)
	for _, dir := range []string{l.at("node"), l.at("containerd", "state"), l.containerdSocket()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("clearing the second node: %w", err)
		}
	}
	return nil
}
