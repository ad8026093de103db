package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
)

const (
	nodeName      = "csenv"
	nodePrefix    = "/24"
	clusterDomain = "cluster.local"
	// cable is the cluster's end of the cable between its network and the machine's.
	cable = "csenv0"
	// firstNetwork and lastNetwork are the second bytes of the networks 10.N.0.0/16 from which up
	// takes the first that is free.
	firstNetwork, lastNetwork = 97, 126
)

// network is the network of a cluster: a network namespace of its own, so that clusters share
// neither ports nor rules of iptables, and a /16 for all of its addresses, to which the machine has
// a route.
type network struct {
	netip.Prefix
	file string // where the namespace is mounted
}

func networkOf(second byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, second, 0, 0}), 16)
}

func (n network) address(third, fourth byte) string {
	bytes := n.Addr().As4()
	return netip.AddrFrom4([4]byte{bytes[0], bytes[1], third, fourth}).String()
}

func (n network) part(third byte, bits int) string {
	return netip.PrefixFrom(netip.MustParseAddr(n.address(third, 0)), bits).String()
}

// machine is the machine's address in the cluster's network.
func (n network) machine() string       { return n.address(0, 254) }
func (n network) nodeIP() string        { return n.address(0, 1) }
func (n network) secondIP() string      { return n.address(0, 2) }
func (n network) services() string      { return n.part(16, 20) }
func (n network) kubernetesVIP() string { return n.address(16, 1) }
func (n network) pods() string          { return n.part(128, 21) } // of all nodes
func (n network) apiAddress() string    { return n.nodeIP() + ":6443" }

// id names what the cluster has on the machine: the other end of the cable, and its cgroups.
func (n network) id() string {
	bytes := n.Addr().As4()
	return fmt.Sprintf("csenv-%d-%d", bytes[0], bytes[1])
}

// parseNetwork reads a /16 of IPv4.
func parseNetwork(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() != 16 || prefix != prefix.Masked() {
		return prefix, fmt.Errorf("%q is not a network such as 10.97.0.0/16", text)
	}
	return prefix, nil
}

// address is a network address of the machine and its interface.
type address struct {
	device string
	prefix netip.Prefix
}

// checkOverlap returns an error if an address of the machine overlaps a network.
func checkOverlap(ours netip.Prefix, addresses []address) error {
	for _, a := range addresses {
		if a.prefix.Overlaps(ours) {
			return fmt.Errorf("the machine's device %s has the address %s, inside %s", a.device, a.prefix, ours)
		}
	}
	return nil
}

// chooseNetwork returns the wanted network or, if there is no wish, the first that is free.
func chooseNetwork(wanted string, addresses []address) (netip.Prefix, error) {
	if wanted != "" {
		prefix, err := parseNetwork(wanted)
		if err != nil {
			return prefix, err
		}
		return prefix, checkOverlap(prefix, addresses)
	}
	for second := byte(firstNetwork); second <= lastNetwork; second++ {
		if prefix := networkOf(second); checkOverlap(prefix, addresses) == nil {
			return prefix, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("no network from %s to %s is free: choose one with --network",
		networkOf(firstNetwork), networkOf(lastNetwork))
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

// inside returns a command line that runs in the cluster's network.
func (n network) inside(argv ...string) []string {
	return append([]string{"nsenter", "--net=" + n.file, "--"}, argv...)
}

// make makes the namespace and the cable.
func (n network) make(ctx context.Context) error {
	if err := writeFile(n.file, nil, 0o600); err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"unshare", "--net=" + n.file, "true"},
		{"ip", "link", "add", n.id(), "type", "veth", "peer", "name", cable, "netns", n.file},
		{"ip", "address", "add", n.machine() + nodePrefix, "dev", n.id()},
		{"ip", "link", "set", n.id(), "up"},
		n.inside("ip", "link", "set", "lo", "up"),
		n.inside("ip", "address", "add", n.nodeIP()+nodePrefix, "dev", cable),
		n.inside("ip", "link", "set", cable, "up"),
		n.inside("ip", "route", "add", "default", "via", n.machine()),
		n.inside("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"),
		{"ip", "route", "add", n.String(), "via", n.nodeIP(), "dev", n.id()},
		n.masquerade("--append"),
	} {
		if _, err := runProgram(ctx, argv[0], argv[1:]...); err != nil {
			return fmt.Errorf("making the cluster's network: %w", err)
		}
	}
	return nil
}

// masquerade is the rule with which pods reach other machines.
func (n network) masquerade(action string) []string {
	return []string{"iptables", "--wait", "--table", "nat", action, "POSTROUTING", "--source", n.String(), "!",
		"--out-interface", n.id(), "--jump", "MASQUERADE"}
}

// remove removes the cable and the rule. The namespace ends when it is unmounted and its last
// process has ended, with all that is in it.
func (n network) remove(ctx context.Context) error {
	for rule := n.masquerade("--delete"); ; {
		if _, err := runProgram(ctx, rule[0], rule[1:]...); err != nil {
			break // there is no such rule any more
		}
	}
	_, err := runProgram(ctx, "ip", "link", "delete", n.id())
	if _, gone := net.InterfaceByName(n.id()); err != nil && gone == nil {
		return fmt.Errorf("removing the cluster's network: %w", err)
	}
	return nil
}

// runProgram runs a program and returns its output. An error contains the program's standard error.
func runProgram(ctx context.Context, name string, args ...string) (string, error) {
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
