package page

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestCut wants the beginning of a long text, whole characters, and the number of the others.
func TestCut(t *testing.T) {
	for name, tc := range map[string]struct {
		text        string
		shown, left int
	}{
		"empty":           {"", 0, 0},
		"short":           {"Grüße", 5, 0},
		"at the bound":    {strings.Repeat("x", maxText), maxText, 0},
		"one more":        {strings.Repeat("x", maxText) + "y", maxText, 1},
		"wide characters": {strings.Repeat("ß", maxText), maxText, 0},
		"wide, one more":  {strings.Repeat("退", maxText) + "款", maxText, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := clipText(tc.text)
			if n := utf8.RuneCountInString(got.Text); n != tc.shown || got.Left != tc.left ||
				!utf8.ValidString(got.Text) || !strings.HasPrefix(tc.text, got.Text) {
				t.Errorf("%d characters are shown and %d left, want %d and %d", n, got.Left, tc.shown, tc.left)
			}
		})
	}
}

// TestAssets wants paths that change with the file, and none for a file that doesn't exist.
func TestAssets(t *testing.T) {
	css, err := AssetPath("/base", "csenv.css")
	if err != nil || !strings.HasPrefix(css, "/base/static/") || !strings.HasSuffix(css, "/csenv.css") {
		t.Errorf("the path is %s, %v", css, err)
	}
	digests := map[string]bool{}
	files, err := static.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path, err := AssetPath("", f.Name())
		if err != nil {
			t.Fatal(err)
		}
		digest := strings.Split(path, "/")[2]
		if digests[digest] || len(digest) != 12 {
			t.Errorf("the digest of %s is %q", f.Name(), digest)
		}
		digests[digest] = true
	}
	if _, err := AssetPath("", "../page.go"); err == nil {
		t.Error("a file beside the static ones has a path")
	}
}
