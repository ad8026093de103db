package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNetworksAreDisjointPartsOfOne(t *testing.T) {
	n := sampleNetwork()
	parts := []netip.Prefix{
		netip.MustParsePrefix(n.nodeIP() + nodePrefix).Masked(), netip.MustParsePrefix(n.services()),
		netip.MustParsePrefix(n.pods()),
	}
	for i, part := range parts {
		if !n.Contains(part.Addr()) || part.Bits() < n.Bits() {
			t.Errorf("%s is not inside %s", part, n)
		}
		for _, other := range parts[:i] {
			if part.Overlaps(other) {
				t.Errorf("%s overlaps %s", part, other)
			}
		}
	}
	for _, address := range []string{n.machine(), n.secondIP()} {
		if !parts[0].Contains(netip.MustParseAddr(address)) || address == n.nodeIP() {
			t.Errorf("%s is not another address of %s", address, parts[0])
		}
	}
	if !parts[1].Contains(netip.MustParseAddr(n.kubernetesVIP())) {
		t.Errorf("%s is not a service address", n.kubernetesVIP())
	}
	if len(n.id()) > 15 {
		t.Errorf("%s is too long for a device", n.id())
	}
}

func TestClash(t *testing.T) {
	tests := map[string]struct {
		prefix  string
		clashes bool
	}{
		"elsewhere":         {"192.168.1.5/24", false},
		"inside":            {"10.97.200.1/24", true},
		"around":            {"10.0.0.5/8", true},
		"the other family":  {"fd00::1/64", false},
		"neighbour of ours": {"10.98.0.1/16", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkOverlap(networkOf(firstNetwork), []address{{"lo", netip.MustParsePrefix("127.0.0.1/8")},
				{"eth0", netip.MustParsePrefix(test.prefix)}})
			if (err != nil) != test.clashes {
				t.Errorf("clash = %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "eth0") {
				t.Errorf("%q does not name the device", err)
			}
		})
	}
}

func TestChooseNetwork(t *testing.T) {
	taken := []address{{"csenv-10-97", netip.MustParsePrefix("10.97.0.254/24")}}
	tests := map[string]struct {
		wanted string
		taken  []address
		want   string
		fails  bool
	}{
		"the first":           {want: "10.97.0.0/16"},
		"beside a cluster":    {taken: taken, want: "10.98.0.0/16"},
		"a wish":              {wanted: "172.30.0.0/16", taken: taken, want: "172.30.0.0/16"},
		"a wish that clashes": {wanted: "10.97.0.0/16", taken: taken, fails: true},
		"none is free":        {taken: []address{{"tun0", netip.MustParsePrefix("10.0.0.5/8")}}, fails: true},
		"too small":           {wanted: "172.30.0.0/24", fails: true},
		"not its beginning":   {wanted: "172.30.1.0/16", fails: true},
		"no network":          {wanted: "lan", fails: true},
		"the other family":    {wanted: "fd00::/16", fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := chooseNetwork(test.wanted, test.taken)
			if (err != nil) != test.fails || err == nil && got.String() != test.want {
				t.Errorf("chooseNetwork = %s, %v", got, err)
			}
		})
	}
}

func TestAClusterKeepsItsNetwork(t *testing.T) {
	b := sampleBuilder(t, nil)
	if err := b.settle("172.29.0.0/16", nil); err != nil {
		t.Fatal(err)
	}
	prefix, err := recordedNetwork(b.at("network"))
	if err != nil || prefix.String() != "172.29.0.0/16" || b.node.ip != "172.29.0.1" {
		t.Errorf("recorded %s, node %+v, %v", prefix, b.node, err)
	}
	if err := b.settle("", nil); err != nil || b.net.Prefix != prefix {
		t.Errorf("later it has %s, %v", b.net, err)
	}
	if err := b.settle("172.28.0.0/16", nil); err == nil || !strings.Contains(err.Error(), "172.29.0.0/16") {
		t.Errorf("another network: %v", err)
	}
}

func TestNetworkIsMadeAndRemoved(t *testing.T) {
	log := `echo "$(basename $0) $*" >> "$LOG"`
	n := sampleNetwork()
	n.file = t.TempDir() + "/net"
	calls := fakePrograms(t, map[string]string{"ip": log, "unshare": log, "nsenter": log,
		"iptables": log + "; [ $4 != --delete ]"})
	if err := n.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`unshare --net=FILE true
ip link add csenv-172-30 type veth peer name csenv0 netns FILE
ip address add 172.30.0.254/24 dev csenv-172-30
ip link set csenv-172-30 up
nsenter --net=FILE -- ip link set lo up
nsenter --net=FILE -- ip address add 172.30.0.1/24 dev csenv0
nsenter --net=FILE -- ip link set csenv0 up
nsenter --net=FILE -- ip route add default via 172.30.0.254
nsenter --net=FILE -- sh -c echo 1 >/proc/sys/net/ipv4/ip_forward
ip route add 172.30.0.0/16 via 172.30.0.1 dev csenv-172-30
iptables --wait --table nat --append POSTROUTING --source 172.30.0.0/16 ! --out-interface csenv-172-30 --jump MASQUERADE
iptables --wait --table nat --delete POSTROUTING --source 172.30.0.0/16 ! --out-interface csenv-172-30 --jump MASQUERADE
ip link delete csenv-172-30
`, "FILE", n.file)
	if diff := cmp.Diff(want, calls.log(t)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
