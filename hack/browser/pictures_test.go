package browser

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var updatePictures = flag.Bool("update-pictures", false, "draw the pictures of the documentation anew")

// maxHeight bounds the height of a picture in pixels.
const maxHeight = 2000

// drawPictures draws the pages that docs/ui.md shows.
func (w *world) drawPictures(t *testing.T) {
	tab := w.open(t, Looks[0], w.site)
	for name, file := range map[string]string{"run-resolve-heuristic": "run", "episode-resolve-heuristic": "episode",
		"leaderboard": "leaderboard", "play": "play"} {
		at := slices.IndexFunc(w.pages, func(p Page) bool { return p.Name == name })
		if at < 0 {
			t.Fatalf("there is no page %s", name)
		}
		load(t, tab, w.pages[at].Path, w.pages[at].Status)
		data, err := tab.Screenshot(Looks[0], maxHeight)
		if err != nil {
			t.Fatal(err)
		}
		if data, err = shrink(data); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("..", "..", "docs", "pictures", file+".png"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// maxBytes is the most that a picture in the documentation takes.
const maxBytes = 150_000

// shrink writes a PNG with a palette of its most frequent colours, which takes a third of the
// bytes. The palette has 256 colours, or fewer if the picture is still too large.
func shrink(data []byte) ([]byte, error) {
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading the picture: %w", err)
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	for _, colours := range []int{256, 64, 16} {
		var out bytes.Buffer
		if err := encoder.Encode(&out, reduced(picture, colours)); err != nil {
			return nil, fmt.Errorf("writing the picture: %w", err)
		}
		if out.Len() <= maxBytes {
			return out.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("the picture takes more than %d bytes with 16 colours", maxBytes)
}

// reduced paints each pixel with the nearest of the most frequent colours.
func reduced(picture image.Image, colours int) *image.Paletted {
	counts := map[color.RGBA]int{}
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[rgba(picture.At(x, y))]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G),
			cmp.Compare(a.B, b.B))
	})
	palette := make(color.Palette, min(colours, len(frequent)))
	for i := range palette {
		palette[i] = frequent[i]
	}
	nearest := map[color.RGBA]uint8{}
	for c := range counts {
		nearest[c] = uint8(palette.Index(c)) //nolint:gosec // a palette has at most 256 colours
	}
	out := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[rgba(picture.At(x, y))])
		}
	}
	return out
}

func rgba(c color.Color) color.RGBA {
	return color.RGBAModel.Convert(c).(color.RGBA)
}
