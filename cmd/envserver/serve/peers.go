package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/csenv/csenv/envserver/openenv/mesh"
)

// validatePeers reports invalid options of peers.
func (o *options) validatePeers() []error {
	if len(o.peers) == 0 {
		return nil
	}
	var errs []error
	for _, peer := range o.peers {
		if _, _, err := net.SplitHostPort(peer); err != nil {
			errs = append(errs, fmt.Errorf("--peers is %q: name servers as HOST:PORT", peer))
		}
	}
	if _, err := netip.ParseAddrPort(o.advertise); err != nil {
		errs = append(errs, fmt.Errorf("--advertise is %q: with --peers set it to this server's IP:PORT, or set POD_IP",
			o.advertise))
	}
	if o.ledgerKey == "" {
		errs = append(errs, errors.New("--peers needs --ledger-key, by which servers of a pool authenticate"))
	}
	return errs
}

// pool configures the server's peers, nil for none.
func (o *options) pool() *mesh.Config {
	if len(o.peers) == 0 {
		return nil
	}
	return &mesh.Config{Lookup: func(ctx context.Context) ([]string, error) { return lookUp(ctx, o.peers) },
		Self: o.advertise}
}

// lookUp finds the addresses of all names. It fails only if no name has an address.
func lookUp(ctx context.Context, names []string) ([]string, error) {
	var addresses []string
	var errs []error
	for _, name := range names {
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return nil, err
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		errs = append(errs, err)
		for _, ip := range found {
			addresses = append(addresses, net.JoinHostPort(ip, port))
		}
	}
	if len(addresses) == 0 {
		return nil, errors.Join(errs...)
	}
	return addresses, nil
}
