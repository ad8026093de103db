// Package fairness bounds what one client occupies of a server that many share: connections, memory
// and processors. A client may take everything while nobody else needs it. Once something is used
// up, the client that has most of it is the first to lose some.
package fairness

import (
	"net"
	"net/netip"
)

// ClientAt names the client at an address, with or without a port. The address of an IPv6 client is
// its network of 64 bits, in which it can choose any other.
func ClientAt(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}
