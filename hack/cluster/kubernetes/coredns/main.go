// Command coredns is CoreDNS with the plugins of ../../config/Corefile alone. The others import the
// clients of every cloud, which take longer to build than CoreDNS. Its version is the newest whose
// dependencies are those that Kubernetes has, so that both are built from the same packages.
package main

import (
	_ "github.com/coredns/coredns/core/dnsserver" // the type of server
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	coremain.Run()
}
