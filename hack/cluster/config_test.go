package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// rendered writes all configuration into a temporary folder and returns its settings.
func rendered(t *testing.T) settings {
	t.Helper()
	b := sampleBuilder(t, io.Discard)
	if err := ensurePKI(b.at("pki"), b.net); err != nil {
		t.Fatal(err)
	}
	s := settings{folders: b.folders, Snapshotter: "overlayfs", Upstreams: "192.0.2.53"}
	if err := writeConfig(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func mustRender(t *testing.T, s settings, name string) string {
	t.Helper()
	text, err := s.render(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestKubeletConfigIsCompleteYAML(t *testing.T) {
	var config struct {
		Address                  string
		ContainerRuntimeEndpoint string
		ClusterDNS               []string
		FailCgroupV1             *bool
		EvictionHard             map[string]string
		TLSCertFile              string
	}
	s := rendered(t)
	if err := yaml.UnmarshalStrict([]byte(mustRender(t, s, "kubelet.yaml")), &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(mustRender(t, s, "kubelet.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	if config.Address != s.net.nodeIP() || config.ContainerRuntimeEndpoint != "unix://"+s.containerdSocket() ||
		config.FailCgroupV1 == nil || *config.FailCgroupV1 {
		t.Errorf("config %+v", config)
	}
	if diff := cmp.Diff([]string{s.net.nodeIP()}, config.ClusterDNS); diff != "" {
		t.Errorf("DNS (-want +got):\n%s", diff)
	}
	if !isRegularFile(config.TLSCertFile) {
		t.Errorf("the certificate %s does not exist", config.TLSCertFile)
	}
}

func TestCNIConfigKeepsPodsInTheirNetwork(t *testing.T) {
	var config struct {
		Name    string
		Plugins []struct {
			Type string
			IPAM struct {
				Ranges [][]struct{ Subnet string }
			}
		}
	}
	second := settings{folders: folders{node: secondNode(sampleNetwork())}}
	if err := json.Unmarshal([]byte(mustRender(t, second, "cni.conflist")), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Plugins) != 2 || config.Plugins[0].IPAM.Ranges[0][0].Subnet != secondNode(sampleNetwork()).pods ||
		config.Plugins[1].Type != "portmap" {
		t.Errorf("config %+v", config)
	}
}

func TestCorefileForwardsOnlyWhereThereIsAServer(t *testing.T) {
	s := settings{Upstreams: "192.0.2.53 192.0.2.54"}
	if text := mustRender(t, s, "Corefile"); !strings.Contains(text, "\tforward . 192.0.2.53 192.0.2.54\n") {
		t.Errorf("with servers:\n%s", text)
	}
	if text := mustRender(t, settings{}, "Corefile"); strings.Contains(text, "forward") {
		t.Errorf("without servers:\n%s", text)
	}
}

func TestNodeScriptCoversEveryFixedPath(t *testing.T) {
	s := settings{folders: folders{state: "/srv/my cluster"}}
	script := mustRender(t, s, "node.sh")
	for _, path := range coveredFolders() {
		line := "mount --bind '" + s.behind(path) + "' " + path + "\n"
		if !strings.Contains(script, line) {
			t.Errorf("the script lacks %q:\n%s", line, script)
		}
	}
	if !strings.HasSuffix(script, "exec containerd --config '/srv/my cluster/config/containerd.toml'\n") {
		t.Errorf("the script does not end in containerd:\n%s", script)
	}
}

func TestContainerdKeepsToTheState(t *testing.T) {
	s := settings{folders: folders{state: "/srv/cluster"}, Snapshotter: "native"}
	text := mustRender(t, s, "containerd.toml")
	for _, line := range []string{
		`root = "/srv/cluster/containerd/root"`, `state = "/srv/cluster/containerd/state"`,
		`address = "/srv/cluster/containerd/containerd.sock"`, `path = "/srv/cluster/containerd/opt"`,
		`snapshotter = "native"`, `sandbox_image = "` + pauseImage + `"`, "restrict_oom_score_adj = true",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("lacks %s:\n%s", line, text)
		}
	}
}

func TestKubeconfigsHoldTheirUsersCertificate(t *testing.T) {
	s := rendered(t)
	for _, user := range []string{"admin", "kubelet", "coredns"} {
		s.User = user
		var config struct {
			Clusters []struct{ Cluster struct{ Server string } }
			Users    []struct {
				User struct {
					Certificate []byte `json:"client-certificate-data"`
				}
			}
		}
		if err := yaml.Unmarshal([]byte(mustRender(t, s, "kubeconfig")), &config); err != nil {
			t.Fatal(err)
		}
		want := mustRead(t, s.at("pki", user+".crt"))
		if config.Clusters[0].Cluster.Server != "https://"+s.net.apiAddress() ||
			string(config.Users[0].User.Certificate) != want {
			t.Errorf("%s: %+v", user, config)
		}
	}
	s.User = "nobody"
	if _, err := s.render("kubeconfig"); err == nil {
		t.Error("no error for a kubeconfig without a certificate")
	}
}

// Every file in a component's command line exists after the configuration is written.
func TestComponentsNameOnlyFilesThatExist(t *testing.T) {
	s := rendered(t)
	b := builder{folders: s.folders, pinned: sampleBuilder(t, io.Discard).pinned}
	for _, name := range componentNames() {
		argv, err := b.commandLine(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, argument := range argv[1:] {
			_, value, found := strings.Cut(argument, "=")
			if !found {
				value = argument
			}
			inConfig := strings.HasPrefix(value, s.at("config")+"/") || strings.HasPrefix(value, s.at("pki")+"/")
			if inConfig && !isRegularFile(value) {
				t.Errorf("%s names %s, which does not exist", name, value)
			}
		}
	}
	if argv, err := b.commandLine("kube-nothing", 1); err == nil {
		t.Errorf("an unknown component has the command line %q", argv)
	}
}

func TestNameServers(t *testing.T) {
	tests := map[string]struct {
		resolv string
		want   []string
	}{
		"none": {resolv: "search example.org\n"},
		"several": {resolv: "# comment\nnameserver 192.0.2.1\nnameserver 2001:db8::1\n",
			want: []string{"192.0.2.1", "2001:db8::1"}},
		"loops":  {resolv: "nameserver 127.0.0.53\nnameserver ::1\n"},
		"broken": {resolv: "nameserver\nnameserver a b\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, nameServers(test.resolv)); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSnapshotterOn(t *testing.T) {
	for filesystem, want := range map[string]string{"overlay": "native", "ext4": "overlayfs", "": "overlayfs"} {
		if got := snapshotterOn(filesystem); got != want {
			t.Errorf("snapshotterOn(%s) = %s, want %s", filesystem, got, want)
		}
	}
}
