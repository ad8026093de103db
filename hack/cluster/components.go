package main

import "strconv"

const (
	apiAddress      = nodeIP + ":6443"
	etcdAddress     = "127.0.0.1:12379"
	etcdPeerAddress = "127.0.0.1:12380"
)

// component is one long-running process of the node.
type component struct {
	name string
	argv []string
}

// etcd keeps its data on disk and speaks only to the API server's certificate.
func etcd(b builder) component {
	return component{name: "etcd", argv: []string{
		b.find("etcd"),
		"--name=csenv",
		"--data-dir=" + b.at("etcd"),
		"--listen-client-urls=https://" + etcdAddress,
		"--advertise-client-urls=https://" + etcdAddress,
		"--listen-peer-urls=http://" + etcdPeerAddress,
		"--initial-advertise-peer-urls=http://" + etcdPeerAddress,
		"--initial-cluster=csenv=http://" + etcdPeerAddress,
		"--client-cert-auth",
		"--trusted-ca-file=" + b.at("pki", "ca.crt"),
		"--cert-file=" + b.at("pki", "etcd.crt"),
		"--key-file=" + b.at("pki", "etcd.key"),
		// A laptop's disk may be slow, and what is lost in a power cut is a demo.
		"--unsafe-no-fsync",
	}}
}

func apiServer(b builder) component {
	pki := func(file string) string { return b.at("pki", file) }
	return component{name: "kube-apiserver", argv: []string{
		b.find("kube-apiserver"),
		"--bind-address=" + nodeIP,
		"--advertise-address=" + nodeIP,
		"--secure-port=6443",
		"--service-cluster-ip-range=" + serviceNetwork,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--client-ca-file=" + pki("ca.crt"),
		"--tls-cert-file=" + pki("kube-apiserver.crt"),
		"--tls-private-key-file=" + pki("kube-apiserver.key"),
		"--etcd-servers=https://" + etcdAddress,
		"--etcd-cafile=" + pki("ca.crt"),
		"--etcd-certfile=" + pki("kube-apiserver-etcd.crt"),
		"--etcd-keyfile=" + pki("kube-apiserver-etcd.key"),
		"--kubelet-certificate-authority=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki("kube-apiserver-kubelet.crt"),
		"--kubelet-client-key=" + pki("kube-apiserver-kubelet.key"),
		// Nothing resolves the node's name, so logs, exec and port-forward go by its address.
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc." + clusterDomain,
		"--service-account-key-file=" + pki("service-account.pub"),
		"--service-account-signing-key-file=" + pki("service-account.key"),
	}}
}

func controllerManager(b builder) component {
	kubeconfig := b.componentKubeconfig("kube-controller-manager")
	return component{name: "kube-controller-manager", argv: []string{
		b.find("kube-controller-manager"),
		"--bind-address=127.0.0.1",
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		// With one replica an election only adds a wait for a dead leader's lease.
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + b.at("pki", "service-account.key"),
		"--root-ca-file=" + b.at("pki", "ca.crt"),
		"--cluster-signing-cert-file=" + b.at("pki", "ca.crt"),
		"--cluster-signing-key-file=" + b.at("pki", "ca.key"),
		"--kube-api-qps=100",
		"--kube-api-burst=200",
	}}
}

func scheduler(b builder) component {
	kubeconfig := b.componentKubeconfig("kube-scheduler")
	return component{name: "kube-scheduler", argv: []string{
		b.find("kube-scheduler"),
		"--bind-address=127.0.0.1",
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
	}}
}

func kubeProxy(b builder) component {
	return component{name: "kube-proxy", argv: []string{
		b.find("kube-proxy"),
		"--proxy-mode=iptables",
		"--kubeconfig=" + b.componentKubeconfig("kube-proxy"),
		"--hostname-override=" + nodeName,
		"--bind-address=" + nodeIP,
		"--healthz-bind-address=" + nodeIP + ":10256",
		"--metrics-bind-address=" + nodeIP + ":10249",
		"--cluster-cidr=" + podNetwork,
		// The machine's connection tracking and loopback routing stay as they are.
		"--conntrack-max-per-core=0",
		"--conntrack-min=0",
		"--conntrack-tcp-timeout-established=0",
		"--conntrack-tcp-timeout-close-wait=0",
		"--iptables-localhost-nodeports=false",
	}}
}

func coreDNS(b builder) component {
	return component{name: "coredns", argv: []string{b.find("coredns"), "-conf", b.at("config", "Corefile")}}
}

// containerd runs in a mount namespace of its own; config/node.sh says why.
func containerd(b builder) component {
	return component{name: "containerd", argv: []string{
		"unshare", "--mount", "--propagation", "private", "sh", b.at("config", "node.sh"),
	}}
}

// kubelet joins the mount namespace of containerd, whose process it needs.
func kubelet(b builder, containerdPID int) component {
	return component{name: "kubelet", argv: []string{
		"nsenter", "--mount=/proc/" + strconv.Itoa(containerdPID) + "/ns/mnt", "--",
		b.find("kubelet"),
		"--config=" + b.at("config", "kubelet.yaml"),
		"--kubeconfig=" + b.componentKubeconfig("kubelet"),
		"--hostname-override=" + nodeName,
		"--node-ip=" + nodeIP,
	}}
}

// componentNames lists every component in the order they start.
func componentNames() []string {
	return []string{
		"etcd", "containerd", "kube-apiserver", "kube-controller-manager",
		"kube-scheduler", "kube-proxy", "coredns", "kubelet",
	}
}
