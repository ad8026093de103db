package image

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Certificates is where Go programs look for the authorities that they trust.
const Certificates = "etc/ssl/certs/ca-certificates.crt"

// CertificatesFile returns the authorities that Mozilla trusts, from a Go module, so that images
// don't depend on the machine that made them. It leaves out those that Mozilla is about to
// distrust, because a file of certificates can't say from when on.
func CertificatesFile() (File, error) {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return File{}, err
		}
	}
	return File{Path: Certificates, Content: text.Bytes(), Mode: 0o644}, nil
}
