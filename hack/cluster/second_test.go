package main

import (
	"net/netip"
	"testing"

	"sigs.k8s.io/yaml"
)

// The nodes share the machine's network, so nothing of theirs may be the same.
func TestSecondNodeSharesNothingWithTheFirst(t *testing.T) {
	type kubelet struct {
		Address, CgroupRoot, ContainerRuntimeEndpoint, TLSCertFile string
		ClusterDNS                                                 []string
	}
	l := local{builder: builder{folders: folders{state: "/srv/cluster", net: sampleNetwork(),
		node: firstNode(sampleNetwork())}}}
	var first, second kubelet
	for l, into := range map[*local]*kubelet{&l: &first, new(l.second()): &second} {
		text := mustRender(t, settings{folders: l.folders}, "kubelet.yaml")
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if first.Address == second.Address || first.CgroupRoot != "/csenv-172-30" || second.CgroupRoot != "/csenv-172-30-2" ||
		first.ContainerRuntimeEndpoint == second.ContainerRuntimeEndpoint || first.TLSCertFile == second.TLSCertFile {
		t.Errorf("%+v\n%+v", first, second)
	}
	if first.ClusterDNS[0] != second.ClusterDNS[0] {
		t.Errorf("DNS at %s and at %s", first.ClusterDNS, second.ClusterDNS)
	}

	a, b := netip.MustParsePrefix(firstNode(sampleNetwork()).pods), netip.MustParsePrefix(secondNode(sampleNetwork()).pods)
	all := netip.MustParsePrefix(sampleNetwork().pods())
	if a.Overlaps(b) || !all.Contains(a.Addr()) || !all.Contains(b.Addr()) || all.Bits() >= a.Bits() {
		t.Errorf("pods in %s and %s of %s", a, b, all)
	}
}
