package main

import (
	"fmt"
	"strings"
)

const (
	apiAddress      = nodeIP + ":6443"
	etcdAddress     = "127.0.0.1:12379"
	etcdPeerAddress = "127.0.0.1:12380"
)

// commandLine renders a component's command line from config/components. Only the kubelet's depends
// on the process of containerd.
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
	return argv, nil
}

// componentNames lists every component in the order they start.
func componentNames() []string {
	return []string{
		"etcd", "containerd", "kube-apiserver", "kube-controller-manager",
		"kube-scheduler", "kube-proxy", "coredns", "kubelet",
	}
}
