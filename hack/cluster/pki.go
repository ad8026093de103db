package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is the validity of certificates, longer than the life of any local cluster.
const validity = 10 * 365 * 24 * time.Hour

// identity is a certificate: always for a client, and for a server too if it has names.
type identity struct {
	file   string // file name without ending
	user   string // common name: the Kubernetes user
	groups []string
	names  []string // DNS names and addresses of the server
}

// listIdentities lists every certificate that the CA issues. Users and groups have the names to
// which Kubernetes' default RBAC roles are bound.
func listIdentities(n network) []identity {
	return []identity{
		{file: "admin", user: "csenv-admin", groups: []string{"system:masters"}},
		{file: "etcd", user: "etcd", names: []string{"localhost", "127.0.0.1"}},
		{file: "kube-apiserver-etcd", user: "kube-apiserver"},
		{file: "kube-apiserver-kubelet", user: "kube-apiserver-kubelet", groups: []string{"system:masters"}},
		{file: "kube-apiserver", user: "kube-apiserver", names: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + clusterDomain,
			"localhost", "127.0.0.1", n.nodeIP(), n.kubernetesVIP(),
		}},
		{file: "kube-controller-manager", user: "system:kube-controller-manager"},
		{file: "kube-scheduler", user: "system:kube-scheduler"},
		{file: "kube-proxy", user: "system:kube-proxy"},
		{file: "coredns", user: "system:coredns"},
		{file: "kubelet", user: "system:node:" + nodeName, groups: []string{"system:nodes"},
			names: []string{nodeName, n.nodeIP()}},
		{file: secondKubelet, user: "system:node:" + secondNode(n).name, groups: []string{"system:nodes"},
			names: []string{secondNode(n).name, secondNode(n).ip}},
	}
}

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// ensurePKI writes the CA, every certificate and the service-account key into dir. The CA's
// certificate is written last: if it is missing, everything is created again.
func ensurePKI(dir string, n network) error {
	if isRegularFile(filepath.Join(dir, "ca.crt")) {
		return nil
	}
	ca, err := newAuthority()
	if err != nil {
		return fmt.Errorf("making the CA: %w", err)
	}
	for _, id := range listIdentities(n) {
		if err := ca.issue(dir, id); err != nil {
			return fmt.Errorf("issuing the certificate %s: %w", id.file, err)
		}
	}
	if err := writeServiceAccountKey(dir); err != nil {
		return fmt.Errorf("making the service-account key: %w", err)
	}
	if err := writeKey(filepath.Join(dir, "ca.key"), ca.key); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", ca.certificate.Raw, 0o644)
}

func newAuthority() (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "csenv-cluster"})
	if err != nil {
		return authority{}, err
	}
	template.IsCA = true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	return authority{certificate: certificate, key: key}, err
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject,
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}, nil
}

// issue writes the certificate and key of id.
func (ca authority) issue(dir string, id identity) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newTemplate(pkix.Name{CommonName: id.user, Organization: id.groups})
	if err != nil {
		return err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(id.names) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, name := range id.names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, key.Public(), ca.key)
	if err != nil {
		return err
	}
	base := filepath.Join(dir, id.file)
	return errors.Join(writeKey(base+".key", key), writePEM(base+".crt", "CERTIFICATE", der, 0o644))
}

// writeServiceAccountKey creates the key pair that signs service-account tokens.
func writeServiceAccountKey(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	base := filepath.Join(dir, "service-account")
	return errors.Join(writeKey(base+".key", key), writePEM(base+".pub", "PUBLIC KEY", public, 0o644))
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
