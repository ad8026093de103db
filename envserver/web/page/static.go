package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
)

//go:embed static
var static embed.FS

// ReadStatic reads a static file.
func ReadStatic(name string) ([]byte, error) {
	data, err := static.ReadFile(path.Join("static", name))
	if err != nil {
		return nil, fmt.Errorf("there is no static file %s", name)
	}
	return data, nil
}

// AssetPath is the path of a static file. It contains the file's digest, so that browsers may keep
// the file for ever.
func AssetPath(base, name string) (string, error) {
	data, err := ReadStatic(name)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(data)
	return base + "/static/" + hex.EncodeToString(digest[:6]) + "/" + name, nil
}

// ServeStatic answers GET .../static/{digest}/{name}.
func ServeStatic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	data, err := ReadStatic(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	types := map[string]string{".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
	w.Header().Set("Content-Type", types[path.Ext(name)]+"; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(data) // the client may have gone
}
