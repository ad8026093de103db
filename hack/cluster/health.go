package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// deadAfter is the number of consecutive checks that must miss a process. During exec, which
// launchers use, a process's environment reads as empty.
const deadAfter = 5

// await polls until check passes. It fails early if the process of the component or of a dependency
// has ended, and then returns the end of that process's log.
func (l local) await(ctx context.Context, name string, timeout time.Duration, check func(context.Context) error,
	dependencies ...string) error {
	var last error
	var dead string
	missing := 0
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true,
		func(ctx context.Context) (bool, error) {
			if last = check(ctx); last == nil {
				return true, nil
			}
			suspect, err := l.firstDead(append(dependencies, name))
			if missing++; suspect == "" {
				missing = 0
			}
			if missing >= deadAfter {
				dead = suspect
			}
			return dead != "", err
		})
	switch {
	case dead != "" && last != nil:
		return fmt.Errorf("%s stopped; %s", dead, readLogTail(l.folders, dead))
	case err != nil:
		return fmt.Errorf("%s is not ready after %s (%w); %s", name, timeout, last, readLogTail(l.folders, name))
	}
	return nil
}

// firstDead returns the first of the components that has no process.
func (l local) firstDead(names []string) (string, error) {
	found, err := findProcesses(l.state)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if !slices.ContainsFunc(found, func(p process) bool { return p.component == name }) {
			return name, nil
		}
	}
	return "", nil
}

// mainProcess finds a component's main process.
func (l local) mainProcess(name string) (process, bool) {
	found, err := findProcesses(l.state)
	if err != nil {
		return process{}, false
	}
	i := slices.IndexFunc(found, func(p process) bool { return p.component == name && p.main() })
	if i < 0 {
		return process{}, false
	}
	return found[i], true
}

// pinnedProcesses returns an error if a component doesn't run or isn't the pinned version.
func (l local) pinnedProcesses() error {
	for _, name := range componentNames() {
		p, running := l.mainProcess(name)
		if !running {
			return fmt.Errorf("%s does not run", name)
		}
		if knownProgram(name) && p.executable != l.find(name) {
			return fmt.Errorf("%s runs from %s, which is not the pinned version", name, p.executable)
		}
	}
	return nil
}

// healthy returns the first failed check of the cluster, or nil.
func (l local) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := l.pinnedProcesses(); err != nil {
		return err
	}
	ready := func(ctx context.Context) error { return l.nodeReady(ctx, nodeName, time.Time{}) }
	for _, check := range []func(context.Context) error{l.apiReady, l.containerdAnswers, ready, l.defaultAccount,
		l.proxyForwards, l.dnsAnswers} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// run runs kubectl as the administrator.
func (l local) run(ctx context.Context, args ...string) (string, error) {
	return runProgram(ctx, l.find("kubectl"), append([]string{"--kubeconfig=" + l.kubeconfig()}, args...)...)
}

// ctr runs containerd's command ctr in the namespace of the kubelet's images.
func (l local) ctr(ctx context.Context, stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", l.containerdSocket(), "--namespace", "k8s.io"},
		args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running ctr %s: %w: %s", args[0], err, lastLines(complaint.String(), 3))
	}
	return string(out), nil
}

func (l local) containerdAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := l.ctr(ctx, nil, "version")
	return err
}

// apiReady calls the API server's readiness endpoint, which needs no credentials. It trusts only
// the cluster's CA.
func (l local) apiReady(ctx context.Context) error {
	ca, err := os.ReadFile(l.at("pki", "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 2 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+l.net.apiAddress()+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return fmt.Errorf("the API server is not ready: %s", strings.TrimSpace(string(body)))
}

// nodeReady checks that a node's kubelet has reported Ready at or after since.
func (l local) nodeReady(ctx context.Context, name string, since time.Time) error {
	out, err := l.run(ctx, "get", "node", name, "-o", "json")
	if err != nil {
		return err
	}
	return readyCondition([]byte(out), since)
}

// readyCondition checks the Ready condition in a node's JSON.
func readyCondition(node []byte, since time.Time) error {
	var parsed struct {
		Status struct {
			Conditions []struct {
				Type, Status, Message string
				LastHeartbeatTime     time.Time
			}
		}
	}
	if err := json.Unmarshal(node, &parsed); err != nil {
		return fmt.Errorf("reading the node: %w", err)
	}
	for _, c := range parsed.Status.Conditions {
		switch {
		case c.Type != "Ready":
		case c.Status != "True":
			return fmt.Errorf("the node is not ready: %s", c.Message)
		case c.LastHeartbeatTime.Before(since):
			return errors.New("the kubelet has not reported since it was started")
		default:
			return nil
		}
	}
	return errors.New("the node has no Ready condition yet")
}

func (l local) defaultAccount(ctx context.Context) error {
	_, err := l.run(ctx, "get", "serviceaccount", "default", "--namespace=default")
	return err
}

// proxyForwards connects to the API server at its Service address, which works only with
// kube-proxy's rules.
func (l local) proxyForwards(ctx context.Context) error {
	dialer := net.Dialer{Timeout: time.Second}
	connection, err := dialer.DialContext(ctx, "tcp", l.net.kubernetesVIP()+":443")
	if err != nil {
		return fmt.Errorf("kube-proxy forwards nothing yet: %w", err)
	}
	return connection.Close()
}

// dnsAnswers queries CoreDNS for the Service kubernetes.default, which every cluster has.
func (l local) dnsAnswers(ctx context.Context) error {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: time.Second}
		return dialer.DialContext(ctx, network, l.net.nodeIP()+":53")
	}}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	found, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+clusterDomain+".")
	if err != nil {
		return fmt.Errorf("CoreDNS does not answer: %w", err)
	}
	if !slices.Contains(found, l.net.kubernetesVIP()) {
		return fmt.Errorf("CoreDNS answers %s for the API server, not %s", strings.Join(found, " "),
			l.net.kubernetesVIP())
	}
	return nil
}
