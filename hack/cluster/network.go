package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
)

// All addresses come out of one /16, so that one check finds a clash
// with a network of the machine.
const (
	clusterNetwork = "10.97.0.0/16"
	bridge         = "csenv0"
	nodeName       = "csenv"
	nodeIP         = "10.97.0.1"
	nodePrefix     = nodeIP + "/24"
	serviceNetwork = "10.97.16.0/20"
	kubernetesVIP  = "10.97.16.1"
	podNetwork     = "10.97.128.0/22"
	clusterDomain  = "cluster.local"
)

// address is one network address of the machine and the interface that has it.
type address struct {
	device string
	prefix netip.Prefix
}

// clash names an address that overlaps the cluster's network on a device that isn't the cluster's.
func clash(addresses []address) error {
	ours := netip.MustParsePrefix(clusterNetwork)
	for _, a := range addresses {
		// Pod devices carry the gateway address, bridges the node's: both are leftovers that up
		// replaces.
		if a.device == bridge || strings.HasPrefix(a.device, "veth") || !a.prefix.Overlaps(ours) {
			continue
		}
		return fmt.Errorf("the machine's device %s has the address %s, inside %s which the cluster uses: take that "+
			"device down first", a.device, a.prefix, clusterNetwork)
	}
	return nil
}

func machineAddresses() ([]address, error) {
	devices, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network devices: %w", err)
	}
	var all []address
	for _, device := range devices {
		addresses, err := device.Addrs()
		if err != nil {
			continue // the device went away meanwhile
		}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				all = append(all, address{device: device.Name, prefix: prefix})
			}
		}
	}
	return all, nil
}

// makeBridge gives the node its address. A bridge without ports works as a
// dummy device does, and exists on kernels built without dummies.
func makeBridge(ctx context.Context) error {
	addresses, err := machineAddresses()
	if err != nil {
		return err
	}
	if err := clash(addresses); err != nil {
		return err
	}
	if err := deleteBridge(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"link", "add", bridge, "type", "bridge"},
		{"address", "add", nodePrefix, "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if _, err := run(ctx, "ip", args...); err != nil {
			return fmt.Errorf("making the bridge %s: %w", bridge, err)
		}
	}
	return nil
}

func deleteBridge(ctx context.Context) error {
	if _, err := run(ctx, "ip", "link", "delete", bridge); err != nil && bridgeExists() {
		return fmt.Errorf("deleting the bridge: %w", err)
	}
	return nil
}

func bridgeExists() bool {
	_, err := net.InterfaceByName(bridge)
	return err == nil
}

// checkPorts finds out before anything starts whether another program holds a port of the
// cluster's.
func checkPorts(ctx context.Context) error {
	for _, a := range []string{
		nodeIP + ":53", apiAddress, etcdAddress, etcdPeerAddress,
		nodeIP + ":10248", nodeIP + ":10249", nodeIP + ":10250", nodeIP + ":10256",
		"127.0.0.1:10257", "127.0.0.1:10259", nodeIP + ":8181",
	} {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", a)
		if err != nil {
			return fmt.Errorf("the cluster needs %s, which another program holds (see ss -ltnp): %w", a, err)
		}
		_ = listener.Close()
	}
	return nil
}

// filterTools are the two families of iptables programs: what saves and restores them.
func filterTools() [][2]string {
	return [][2]string{{"iptables-save", "iptables-restore"}, {"ip6tables-save", "ip6tables-restore"}}
}

// ownChain reports whether a chain is of a kind that kube-proxy and the CNI plugins make.
func ownChain(name string) bool {
	return strings.HasPrefix(name, "KUBE-") || strings.HasPrefix(name, "CNI-")
}

// chainsIn lists the chains of such kinds in iptables-save output, as "table chain".
func chainsIn(save string) []string {
	var chains []string
	table := ""
	for line := range strings.Lines(save) {
		line = strings.TrimSpace(line)
		if name, found := strings.CutPrefix(line, "*"); found {
			table = name
		}
		if name, _, _ := strings.Cut(strings.TrimPrefix(line, ":"), " "); strings.HasPrefix(line, ":") &&
			ownChain(name) {
			chains = append(chains, table+" "+name)
		}
	}
	return chains
}

// cleanupScript turns iptables-save output into iptables-restore --noflush input
// that removes the chains of kube-proxy and of the cluster's CNI network and every
// rule that jumps to one. Chains in keep ("table chain") were there before the cluster.
// It returns "" when there is nothing to remove.
func cleanupScript(save string, keep []string) string {
	var script strings.Builder
	for table := range strings.SplitSeq(save, "\n*") {
		name, _, _ := strings.Cut(strings.TrimPrefix(table, "*"), "\n")
		doomed := map[string]bool{}
		for _, chain := range chainsIn("*" + strings.TrimPrefix(table, "*")) {
			_, short, _ := strings.Cut(chain, " ")
			doomed[short] = !slices.Contains(keep, chain) && ofCluster(table, short)
		}
		if commands := removal(table, doomed); len(commands) > 0 {
			fmt.Fprintf(&script, "*%s\n%s\nCOMMIT\n", strings.TrimSpace(name), strings.Join(commands, "\n"))
		}
	}
	return script.String()
}

// cniNetwork is how the CNI plugins' comments name the cluster's network, as iptables-save quotes
// them.
const cniNetwork = `name: \"csenv\" id: `

// ofCluster reports whether a chain of such a kind is the cluster's. Another tool
// may have started to use CNI plugins meanwhile: a chain of theirs has to hold a
// rule of the cluster's network, or be the aim of one, and hold none of another.
func ofCluster(table, chain string) bool {
	if !strings.HasPrefix(chain, "CNI-") {
		return true
	}
	ours := false
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != "-A" {
			continue
		}
		own := strings.Contains(line, cniNetwork)
		if fields[1] == chain && !own && strings.Contains(line, `name: \"`) {
			return false
		}
		ours = ours || own && (fields[1] == chain || jumpTarget(fields) == chain)
	}
	return ours
}

// removal lists the commands that empty one table of its doomed chains: jumps
// into them first, then their rules, then the chains, which by then nothing refers to.
func removal(table string, doomed map[string]bool) []string {
	var jumps, flushes, deletions []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 2 && fields[0] == "-A" && !doomed[fields[1]] && doomed[jumpTarget(fields)]:
			jumps = append(jumps, "-D"+strings.TrimPrefix(strings.TrimSpace(line), "-A"))
		case len(fields) > 0 && doomed[strings.TrimPrefix(fields[0], ":")]:
			chain := strings.TrimPrefix(fields[0], ":")
			flushes = append(flushes, "-F "+chain)
			deletions = append(deletions, "-X "+chain)
		}
	}
	return slices.Concat(jumps, flushes, deletions)
}

func jumpTarget(rule []string) string {
	for i, field := range rule[:len(rule)-1] {
		if field == "-j" || field == "-g" {
			return rule[i+1]
		}
	}
	return ""
}

// cleanFilters removes the iptables chains that the cluster caused.
func cleanFilters(ctx context.Context, keep []string) error {
	for _, tools := range filterTools() {
		save, err := run(ctx, tools[0])
		if err != nil {
			continue // no such tool or no such family in this kernel: nothing was added either
		}
		script := cleanupScript(save, keep)
		if script == "" {
			continue
		}
		if _, err := runWith(ctx, script, tools[1], "--noflush"); err != nil {
			return fmt.Errorf("removing the cluster's iptables chains: %w", err)
		}
	}
	return nil
}

// run runs a program and returns what it prints; its error holds what it complains about.
func run(ctx context.Context, name string, args ...string) (string, error) {
	return runWith(ctx, "", name, args...)
}

func runWith(ctx context.Context, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err,
			lastLines(complaint.String(), 5))
	}
	return string(out), nil
}
