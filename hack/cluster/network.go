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

// All addresses are in one /16, so that one check finds a conflict with a network of the machine.
const (
	clusterNetwork = "10.97.0.0/16"
	bridge         = "csenv0"
	nodeName       = "csenv"
	nodeIP         = "10.97.0.1"
	nodePrefix     = "/24"
	serviceNetwork = "10.97.16.0/20"
	kubernetesVIP  = "10.97.16.1"
	podNetwork     = "10.97.128.0/21" // of all nodes
	clusterDomain  = "cluster.local"
)

// address is a network address of the machine and its interface.
type address struct {
	device string
	prefix netip.Prefix
}

// clash returns an error if an address of another device overlaps the cluster's network.
func clash(addresses []address) error {
	ours := netip.MustParsePrefix(clusterNetwork)
	for _, a := range addresses {
		// Pod devices have the gateway's address and bridges the node's. Both are leftovers, which
		// up replaces.
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
			continue // the device was removed since
		}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				all = append(all, address{device: device.Name, prefix: prefix})
			}
		}
	}
	return all, nil
}

// makeBridge gives the node its address. A bridge without ports works like a dummy device, and
// exists in kernels without dummy devices.
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
		{"address", "add", nodeIP + nodePrefix, "dev", bridge},
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

// checkPorts checks before anything starts that no other program uses a port of the cluster.
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

// filterTools lists the iptables programs of both address families: one saves, one restores.
func filterTools() [][2]string {
	return [][2]string{{"iptables-save", "iptables-restore"}, {"ip6tables-save", "ip6tables-restore"}}
}

// ownChain reports whether kube-proxy or the CNI plugins create chains with such a name.
func ownChain(name string) bool {
	return strings.HasPrefix(name, "KUBE-") || strings.HasPrefix(name, "CNI-")
}

// chainsIn lists those chains in iptables-save output, as "table chain".
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

// cleanupScript converts iptables-save output to iptables-restore --noflush input that removes the
// chains of kube-proxy and of the cluster's CNI network, and every rule that jumps to them. Chains
// in keep ("table chain") existed before the cluster. It returns "" if nothing is to be removed.
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

// cniNetwork is the name of the cluster's network in the comments of the CNI plugins, as
// iptables-save quotes them.
const cniNetwork = `name: \"csenv\" id: `

// ofCluster reports whether a chain belongs to the cluster. Other tools may use CNI plugins too, so
// a chain of the plugins must contain or be the target of a rule of the cluster's network, and
// contain no rule of another one.
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

// removal lists the commands that remove the doomed chains of a table: first the jumps to them,
// then their rules, then the chains.
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

// cleanFilters removes the iptables chains that the cluster created.
func cleanFilters(ctx context.Context, keep []string) error {
	for _, tools := range filterTools() {
		save, err := run(ctx, tools[0])
		if err != nil {
			continue // the tool or the address family doesn't exist, so nothing was added
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

// run runs a program and returns its output. An error contains the program's standard error.
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
