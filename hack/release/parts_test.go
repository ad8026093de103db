package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

// newKeyFile makes a key in the form of openssl or, with a password, of cosign.
func newKeyFile(t *testing.T, curve elliptic.Curve, password string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	kind := plainKey
	if password != "" {
		kind = encryptedKey
		if der, err = encrypted.Encrypt(der, []byte(password)); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "cosign.key")
	writeFile(t, name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	return name
}

func TestKeys(t *testing.T) {
	if _, err := readPrivateKey(newKeyFile(t, elliptic.P256(), "")); err != nil {
		t.Error(err)
	}
	secret := newKeyFile(t, elliptic.P256(), "secret")
	for password, want := range map[string]string{"secret": "", "wrong": "COSIGN_PASSWORD"} {
		t.Setenv("COSIGN_PASSWORD", password)
		if _, err := readPrivateKey(secret); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with the password %s: %v", password, err)
		}
	}
	file := func(kind string) string {
		name := filepath.Join(t.TempDir(), "key")
		writeFile(t, name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("x")}))
		return name
	}
	for name, want := range map[string]string{newKeyFile(t, elliptic.P384(), ""): "P-256",
		file("EC PRIVATE KEY"): "it must be a", file(plainKey): "reading",
		filepath.Join(t.TempDir(), "none"): "reading the key"} {
		if _, err := readPrivateKey(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a private key: %v, want %q", err, want)
		}
	}
}

// TestSignatures checks the signatures of a text and of a statement, which are always the same.
func TestSignatures(t *testing.T) {
	key, text := newKey(t), []byte(`{"a": 1}`)
	for name, sign := range map[string]func(*ecdsa.PrivateKey, []byte) ([]byte, error){"text": signText,
		"statement": signStatement} {
		signed, err := sign(key, text)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := sign(key, text); err != nil || !bytes.Equal(signed, again) {
			t.Errorf("two signatures of a %s differ: %v", name, err)
		}
		var b bundle
		if err := json.Unmarshal(signed, &b); err != nil {
			t.Fatal(err)
		}
		about, signature := text, []byte(nil)
		if b.Envelope != nil {
			about, signature = b.Envelope.signed(), b.Envelope.Signatures[0].Sig
		} else {
			signature = b.MessageSignature.Signature
		}
		digest := crypto.SHA256.New()
		digest.Write(about)
		if !ecdsa.VerifyASN1(&key.PublicKey, digest.Sum(nil), signature) {
			t.Errorf("the signature of a %s doesn't belong to it", name)
		}
		if sum := sha256.Sum256(text); b.MessageSignature != nil && !bytes.Equal(b.MessageSignature.MessageDigest.Digest, sum[:]) {
			t.Errorf("the digest of the text is %x", b.MessageSignature.MessageDigest.Digest)
		}
	}
}

// TestLinksAreNoFilesOfARelease refuses a link, whose target no checksum covers.
func TestLinksAreNoFilesOfARelease(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("a"))
	if sums, err := hashFiles(dir); err != nil || len(sums) != 1 {
		t.Errorf("%v, %v", sums, err)
	}
	if err := os.Symlink("a", filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if _, err := hashFiles(dir); err == nil || !strings.Contains(err.Error(), "b is no plain file") {
		t.Errorf("got %v", err)
	}
}

// TestImagesOfManifests requires one image at every place.
func TestImagesOfManifests(t *testing.T) {
	const right = "r/csenv:v1@sha256:aa"
	manifests := func(container, variable string) string {
		return "      - name: manager\n        image: " + container +
			"\n        env:\n        - name: CSENV_IMAGE\n          value: " +
			variable + "\n"
	}
	for text, want := range map[string]string{
		manifests(right, right):                                 "",
		manifests(`"`+right+`"`, `"`+right+`"`):                 "",
		manifests(right, "r/csenv:v1"):                          "the image is r/csenv:v1,",
		manifests("evil", right):                                "the image is evil,",
		manifests(right, right) + "      - image: evil\n":       "the image is evil,",
		manifests(right, right) + "  imagePullPolicy: Always\n": "",
		"image: " + right + "\n":                                "1 images",
	} {
		if got := wrongImages([]byte(text), right); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q, want %q in\n%s", got, want, text)
		}
	}
}

// TestPlatforms reads lists of platforms.
func TestPlatforms(t *testing.T) {
	for list, want := range map[string]string{
		"linux/amd64": "linux/amd64", "linux/amd64,darwin/arm64": "linux/amd64, darwin/arm64",
		"": "", "linux": "", "windows/amd64": "", "linux/386": "", "linux/amd64,": "", "linux/amd64,linux/amd64": "",
	} {
		got, err := parsePlatforms(list)
		if (err != nil) != (want == "") || platformNames(got) != want {
			t.Errorf("%q: %s, %v, want %q", list, platformNames(got), err, want)
		}
	}
}
