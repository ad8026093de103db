package browser

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"strings"
	"testing"
)

func TestUnpackAxe(t *testing.T) {
	pack := func(name, text string) []byte {
		var out bytes.Buffer
		zipped := gzip.NewWriter(&out)
		files := tar.NewWriter(zipped)
		if err := files.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := files.Close(); err != nil {
			t.Fatal(err)
		}
		if err := zipped.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	sound := pack(axeScript, "axe = {}")
	other := pack("package/other.js", "axe = {}")
	for name, tc := range map[string]struct {
		packed, digested []byte
		want, fault      string
	}{
		"the known package": {sound, sound, "axe = {}", ""},
		"another package":   {other, sound, "", "it isn't the known package"},
		"no script":         {other, other, "", "looking for package/axe.min.js"},
		"not compressed":    {[]byte("x"), []byte("x"), "", "unpacking"},
	} {
		t.Run(name, func(t *testing.T) {
			digest := sha512.Sum512(tc.digested)
			got, err := unpackAxe(tc.packed, base64.StdEncoding.EncodeToString(digest[:]))
			if string(got) != tc.want || (err == nil) != (tc.fault == "") ||
				err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("got %q and the error %v, want %q and %q", got, err, tc.want, tc.fault)
			}
		})
	}
}
