package main

import (
	"embed"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"text/template"

	"github.com/prometheus/procfs"
)

//go:embed config
var configFiles embed.FS

// settings are the values that the templates in config use.
type settings struct {
	folders
	Snapshotter string
	Upstreams   string // name servers for names outside the cluster, or ""
	User        string // user of the kubeconfig

	Program       func(name string) string // path of a built program, for command lines
	ContainerdPID int                      // for the kubelet's command line
}

// covering is a fixed path and the folder in the state that is mounted over it.
type covering struct{ Path, Behind string }

func (s settings) At(parts ...string) string     { return s.at(parts...) }
func (s settings) ContainerdSocket() string      { return s.containerdSocket() }
func (settings) PauseImage() string              { return pauseImage }
func (settings) CNIFolder() string               { return cniFolder }
func (s settings) PodNetwork() string            { return s.net.pods() }
func (s settings) NodePods() string              { return s.node.pods }
func (s settings) NodeIP() string                { return s.node.ip }
func (s settings) CgroupRoot() string            { return s.node.group }
func (s settings) DNSAddress() string            { return s.net.nodeIP() }
func (settings) ClusterDomain() string           { return clusterDomain }
func (s settings) APIAddress() string            { return s.net.apiAddress() }
func (settings) EtcdAddress() string             { return etcdAddress }
func (settings) EtcdPeerAddress() string         { return etcdPeerAddress }
func (s settings) NodeName() string              { return s.node.name }
func (s settings) ServiceNetwork() string        { return s.net.services() }
func (s settings) Kubeconfig(user string) string { return s.at("config", user+".kubeconfig") }

func (s settings) Covered() []covering {
	all := make([]covering, 0, len(coveredFolders()))
	for _, path := range coveredFolders() {
		all = append(all, covering{Path: path, Behind: s.behind(path)})
	}
	return all
}

// Base64 returns a file of the PKI in base64, for a kubeconfig.
func (s settings) Base64(file string) (string, error) {
	data, err := os.ReadFile(s.at("pki", file))
	return base64.StdEncoding.EncodeToString(data), err
}

func (f folders) containerdSocket() string { return f.at("containerd", "containerd.sock") }

// machineSettings reads the settings that depend on this machine.
func machineSettings(f folders) (settings, error) {
	mounts, err := procfs.GetMounts()
	if err != nil {
		return settings{}, fmt.Errorf("reading mounts: %w", err)
	}
	resolv, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !os.IsNotExist(err) {
		return settings{}, fmt.Errorf("reading name servers: %w", err)
	}
	return settings{
		folders:     f,
		Snapshotter: snapshotterOn(filesystemAt(mounts, f.state)),
		Upstreams:   strings.Join(nameServers(string(resolv)), " "),
	}, nil
}

// filesystemAt returns the type of the filesystem that contains dir.
func filesystemAt(mounts []*procfs.MountInfo, dir string) string {
	longest, kind := -1, ""
	for _, m := range mounts {
		point := unescapeMount(m.MountPoint)
		inside := point == "/" || dir == point || strings.HasPrefix(dir, point+"/")
		if inside && len(point) >= longest {
			longest, kind = len(point), m.FSType
		}
	}
	return kind
}

// snapshotterOn chooses containerd's snapshotter. An overlay can't be mounted on another overlay,
// and the root of a container is one.
func snapshotterOn(filesystem string) string {
	if filesystem == "overlay" {
		return "native"
	}
	return "overlayfs"
}

// nameServers lists the servers in resolv.conf that can be reached from the cluster's network.
func nameServers(resolv string) []string {
	var servers []string
	for line := range strings.Lines(resolv) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == "nameserver" {
			if at, err := netip.ParseAddr(fields[1]); err == nil && !at.IsLoopback() {
				servers = append(servers, fields[1])
			}
		}
	}
	return servers
}

// render executes one template of config.
func (s settings) render(name string) ([]byte, error) {
	parsed, err := template.ParseFS(configFiles, "config/"+name)
	if err != nil {
		return nil, fmt.Errorf("parsing config/%s: %w", name, err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, s); err != nil {
		return nil, fmt.Errorf("filling in config/%s: %w", name, err)
	}
	return []byte(text.String()), nil
}

// writeConfig writes the configuration and kubeconfig of every component.
func writeConfig(s settings) error {
	for _, name := range []string{"Corefile", "coredns.yaml"} {
		if err := s.write(name, s.at("config", name), 0o644); err != nil {
			return err
		}
	}
	if err := writeNodeConfig(s); err != nil {
		return err
	}
	for _, user := range []string{"kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns"} {
		s.User = user
		if err := s.write("kubeconfig", s.Kubeconfig(user), 0o600); err != nil {
			return err
		}
	}
	s.User = "admin"
	return s.write("kubeconfig", s.at("kubeconfig"), 0o600)
}

// writeNodeConfig writes the configuration of a node's containerd and kubelet.
func writeNodeConfig(s settings) error {
	for _, name := range []string{"containerd.toml", "kubelet.yaml", "resolv.conf", "node.sh"} {
		if err := s.write(name, s.at("config", name), 0o644); err != nil {
			return err
		}
	}
	if err := s.write("cni.conflist", s.at("config", "cni", "csenv.conflist"), 0o644); err != nil {
		return err
	}
	s.User = "kubelet"
	return s.write("kubeconfig", s.Kubeconfig(s.User), 0o600)
}

func (s settings) write(name, path string, mode os.FileMode) error {
	content, err := s.render(name)
	if err != nil {
		return err
	}
	return writeFile(path, content, mode)
}

const (
	etcdAddress     = "127.0.0.1:12379"
	etcdPeerAddress = "127.0.0.1:12380"
)

// componentNames lists the components in the order of their start.
func componentNames() []string {
	return []string{
		"etcd", "containerd", "kube-apiserver", "kube-controller-manager",
		"kube-scheduler", "kube-proxy", "coredns", "kubelet",
	}
}
