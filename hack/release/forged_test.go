package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// reseal makes the provenance and the checksums of a changed release as its builder would, but
// without the key.
func reseal(t *testing.T, dir string) {
	t.Helper()
	sums, err := hashFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	delete(sums, provenanceFile)
	delete(sums, provenanceFile+signedSuffix)
	s, err := readProvenance(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Subject {
		s.Subject[i].Digest["sha256"] = sums[s.Subject[i].Name]
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, provenanceFile), text)
	if sums, err = hashFiles(dir); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, checksumsFile), formatChecksums(sums))
}

// failures are the checks of a report that failed.
func failures(report string) []string {
	var names []string
	for line := range strings.Lines(report) {
		if name, _, found := strings.Cut(line, failed); found {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// TestForgedReleases changes a signed release and makes its checksums and provenance anew. With the
// key its signatures fail, and without it whatever contradicts the rest of the release.
func TestForgedReleases(t *testing.T) {
	key := newKey(t)
	dir := build(t, newRelease(t, newProject(t), key))
	const sums, provenance = "signature of the checksums", "signature of the provenance"
	replaced := func(old, with string) func([]byte) []byte {
		return func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(old), []byte(with)) }
	}
	for name, tc := range map[string]struct {
		file   string
		change func(text []byte) []byte
		// with and without are the checks that fail with the key, and without one.
		with, without []string
	}{
		"nothing": {installFile, bytes.Clone, nil, nil},
		"image in the manifests": {installFile, replaced("registry.example/csenv", "registry.example/evil"),
			[]string{sums, provenance, installFile}, []string{installFile}},
		"text in the manifests": {installFile, replaced("csenv-manager", "evil-manager"), []string{sums, provenance}, nil},
		"commit": {provenanceFile, replaced(`"gitCommit": "`, `"gitCommit": "0`), []string{sums,
			provenance}, nil},
		"version": {provenanceFile, replaced("v1.2.3", "v1.2.4"), nil, nil},
		"Go": {provenanceFile, replaced(`"go": "go`, `"go": "og`), []string{sums, provenance,
			"archive and SBOMs of linux/amd64", "archive and SBOMs of linux/arm64", "image's SBOMs of linux/amd64",
			"image's SBOMs of linux/arm64"}, []string{"archive and SBOMs of linux/amd64", "archive and SBOMs of linux/arm64",
			"image's SBOMs of linux/amd64", "image's SBOMs of linux/arm64"}},
		"modules": {"csenv_v1.2.3_linux_amd64.spdx.json", replaced("stdlib", "stdlob"),
			[]string{sums, provenance, "archive and SBOMs of linux/amd64"}, []string{"archive and SBOMs of linux/amd64"}},
		"chart": {"csenv-1.2.3.tgz", func(text []byte) []byte { return append(text, 0) }, []string{sums, provenance,
			"chart"},
			[]string{"chart"}},
	} {
		t.Run(name, func(t *testing.T) {
			forged := filepath.Join(t.TempDir(), "dist")
			for file, content := range files(t, dir) {
				if file == tc.file {
					content = tc.change(bytes.Clone(content))
				}
				writeFile(t, filepath.Join(forged, file), content)
			}
			reseal(t, forged)
			report, ok := verify(t, forged, &key.PublicKey)
			if name == "version" {
				if ok || !slices.Contains(failures(report), sums) || !slices.Contains(failures(report), "image") {
					t.Errorf("another version:\n%s", report)
				}
				return
			}
			if got := failures(report); ok != (tc.with == nil) || !slices.Equal(got, tc.with) {
				t.Errorf("with the key fail %q, want %q:\n%s", got, tc.with, report)
			}
			report, ok = verify(t, forged, nil)
			if got := failures(report); ok != (tc.without == nil) || !slices.Equal(got, tc.without) {
				t.Errorf("without the key fail %q, want %q:\n%s", got, tc.without, report)
			}
		})
	}
}

// bundled signs a text and a statement of the same bytes.
func bundled(t *testing.T, key *ecdsa.PrivateKey, text []byte) (ofText, ofStatement []byte) {
	t.Helper()
	ofText, err := signText(key, text)
	if err != nil {
		t.Fatal(err)
	}
	if ofStatement, err = signStatement(key, text); err != nil {
		t.Fatal(err)
	}
	return ofText, ofStatement
}

// TestSignaturesAreForOneText accepts a signature for its text alone, in its own form alone.
func TestSignaturesAreForOneText(t *testing.T) {
	key, other := newKey(t), newKey(t)
	text := []byte(`{"a": 1}`)
	ofText, ofStatement := bundled(t, key, text)
	changed := func(bundle []byte, old, with string) []byte {
		out := bytes.Replace(bundle, []byte(old), []byte(with), 1)
		if bytes.Equal(out, bundle) {
			t.Fatalf("the bundle has no %s: %s", old, bundle)
		}
		return out
	}
	for name, tc := range map[string]struct {
		verify       func(*ecdsa.PublicKey, []byte, []byte) error
		key          *ecdsa.PrivateKey
		text, bundle []byte
		accepted     bool
	}{
		"text":                {verifyText, key, text, ofText, true},
		"statement":           {verifyStatement, key, text, ofStatement, true},
		"another text":        {verifyText, key, []byte(`{"a": 2}`), ofText, false},
		"another statement":   {verifyStatement, key, []byte(`{"a": 2}`), ofStatement, false},
		"text as statement":   {verifyStatement, key, text, ofText, false},
		"statement as text":   {verifyText, key, text, ofStatement, false},
		"another key":         {verifyText, other, text, ofText, false},
		"another key's":       {verifyStatement, other, text, ofStatement, false},
		"another spelling":    {verifyText, key, text, changed(ofText, "{", "{ "), false},
		"another member":      {verifyText, key, text, changed(ofText, "{", `{"x":1,`), false},
		"another digest":      {verifyText, key, text, changed(ofText, `"digest":"`, `"digest":"AA`), false},
		"another algorithm":   {verifyText, key, text, changed(ofText, "SHA2_256", "SHA2_512"), false},
		"another payloadType": {verifyStatement, key, text, changed(ofStatement, payloadType, "text/plain"), false},
		"another type":        {verifyText, key, text, changed(ofText, "v0.3", "v0.2"), false},
		"no bundle":           {verifyText, key, text, nil, false},
		"an empty bundle":     {verifyText, key, text, []byte("{}"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.verify(&tc.key.PublicKey, tc.text, tc.bundle); (err == nil) != tc.accepted {
				t.Errorf("got %v, accepted: %t", err, tc.accepted)
			}
		})
	}
}

// TestDoubledSignatures refuses an envelope with two signatures, of which one could be anybody's.
func TestDoubledSignatures(t *testing.T) {
	key := newKey(t)
	text := []byte("statement")
	_, signed := bundled(t, key, text)
	var b bundle
	if err := json.Unmarshal(signed, &b); err != nil {
		t.Fatal(err)
	}
	for name, signatures := range map[string][]envelopeSignature{"none": {}, "two": {b.Envelope.Signatures[0],
		{Sig: []byte("x")}},
		"another": {{Sig: []byte("x")}}} {
		b.Envelope.Signatures = signatures
		doubled, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifyStatement(&key.PublicKey, text, doubled); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// signedLayout returns an artefact of a text, and its signature from a layout.
func signedLayout(t *testing.T, key *ecdsa.PrivateKey, text string) (content, signature v1.Image) {
	t.Helper()
	content, err := newArtefact([]byte(text), v1.Manifest{Config: newDescriptor(emptyType, []byte("{}"))}, []byte("{}"),
		helmContent)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := layout.Write(t.TempDir(), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := signLayout(dir, content, key); err != nil {
		t.Fatal(err)
	}
	all, err := dir.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatal(manifest, err)
	}
	if signature, err = all.Image(manifest.Manifests[0].Digest); err != nil {
		t.Fatal(err)
	}
	return content, signature
}

// digestOf is the digest of an artefact.
func digestOf(t *testing.T, content v1.Image) v1.Hash {
	t.Helper()
	digest, err := content.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestSignaturesOfLayouts accepts a referrer for the digest that it names and signs, and neither
// one of other content nor one that was attached to another digest.
func TestSignaturesOfLayouts(t *testing.T) {
	key := newKey(t)
	content, signature := signedLayout(t, key, "content")
	other, _ := signedLayout(t, key, "other")
	if err := verifyReferrer(&key.PublicKey, signature, digestOf(t, content)); err != nil {
		t.Error(err)
	}
	if err := verifyReferrer(&key.PublicKey, signature, digestOf(t, other)); err == nil ||
		!strings.Contains(err.Error(), "another digest") {
		t.Errorf("a signature of other content: %v", err)
	}
	if verifyReferrer(&newKey(t).PublicKey, signature, digestOf(t, content)) == nil {
		t.Error("a signature of another key is accepted")
	}
	manifest, err := signature.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := signature.Layers()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(opened); err != nil {
		t.Fatal(err)
	}
	manifest.Subject.Digest = digestOf(t, other)
	moved, err := newArtefact(text.Bytes(), *manifest, []byte("{}"), bundleType)
	if err != nil {
		t.Fatal(err)
	}
	if verifyReferrer(&key.PublicKey, moved, digestOf(t, other)) == nil {
		t.Error("a signature that was attached to other content is accepted")
	}
}

// TestChecksums names what is wrong with a text of checksums.
func TestChecksums(t *testing.T) {
	sums := map[string]string{"a": "11", "b c": "22"}
	for text, want := range map[string]string{
		"11  a\n22  b c\n":          "",
		"11  a\n":                   "b c has no checksum",
		"11  a\n22  b c\n33  d\n":   "d is missing",
		"12  a\n22  b c\n":          "a was changed",
		"22  b c\n11  a\n":          "isn't sorted",
		"11  a\n22  b c":            "isn't sorted",
		"11  a\n11  a\n22  b c\n":   "isn't sorted",
		"11  a\nnothing\n22  b c\n": "is no checksum",
		"":                          "a has no checksum",
	} {
		if got := strings.Join(compareChecksums([]byte(text), sums), ", "); (got == "") != (want == "") ||
			!strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := string(formatChecksums(sums)); got != "11  a\n22  b c\n" {
		t.Errorf("the checksums are %q", got)
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

// TestKeys refuses keys of another kind, and writes the private one for its owner alone.
func TestKeys(t *testing.T) {
	prefix := newKeys(t)
	if info, err := os.Stat(prefix + ".key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the private key has the mode %v, %v", info, err)
	}
	public, err := readPublicKey(prefix + ".pub")
	if err != nil || !public.Equal(&readKey(t, prefix).PublicKey) {
		t.Errorf("the public key is of another pair: %v", err)
	}
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(wide)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := x509.MarshalPKIXPublicKey(&wide.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	file := func(kind string, der []byte) string {
		name := filepath.Join(t.TempDir(), "key")
		writeFile(t, name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		return name
	}
	for name, want := range map[string]string{file(plainKey, private): "P-256", file("EC PRIVATE KEY",
		private): "it must be a",
		file(plainKey, []byte("x")): "reading", prefix + ".pub": "it must be a", filepath.Join(t.TempDir(),
			"none"): "reading the key"} {
		if _, err := readPrivateKey(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a private key: %v, want %q", err, want)
		}
	}
	for name, want := range map[string]string{file(publicKey, shown): "P-256", prefix +
		".key": "reading the public key"} {
		if _, err := readPublicKey(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a public key: %v, want %q", err, want)
		}
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
