package buckets

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
)

// metadata are addresses at which clouds serve credentials to their machines, besides the
// link-local ones.
var metadata = []netip.Prefix{netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("192.0.0.192/32")}

// dialControl returns a control of a dialer for the store at a URL, "" for a cloud's store.
// Whatever the store's name resolves to, and wherever the store redirects, the client connects to
// no service of metadata, and to this machine only if the URL says so.
func dialControl(location string) func(ctx context.Context, network, address string, _ syscall.RawConn) error {
	u, err := url.Parse(location)
	if err != nil {
		u = &url.URL{}
	}
	named, _ := netip.ParseAddr(u.Hostname()) //nolint:errcheck // a name isn't a loopback address
	local := named.IsLoopback() || u.Hostname() == "localhost"
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
		return nil // the proxy connects to the store
	}
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		ip := at.Addr().Unmap().WithZone("")
		isMetadata := slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(ip) })
		switch {
		case isMetadata, ip.IsLinkLocalUnicast(), ip.IsMulticast():
			return fmt.Errorf("no store is at %s, which is an address of this machine's network or cloud", ip)
		case !local && (ip.IsLoopback() || ip.IsUnspecified()):
			return fmt.Errorf("the store's name leads to %s, which is this machine: write localhost in its URL if "+
				"that is meant", ip)
		}
		return nil
	}
}

// newHTTPClient makes a client for the store at a URL.
func newHTTPClient(location string) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	transport.DialContext = (&net.Dialer{ControlContext: dialControl(location)}).DialContext
	return &http.Client{Transport: transport}
}
