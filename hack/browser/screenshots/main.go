// Command screenshots draws each page of csenv ui, wide and narrow, light and dark.
//
//	go run ./hack/browser/screenshots --out docs/pictures
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/csenv/csenv/hack/browser"
)

// maxHeight bounds the height of a picture in pixels.
const maxHeight = 2000

func main() {
	out := flag.String("out", "", "folder to write the PNG files to")
	only := flag.String("page", "", "draw only the page of this name, for example overview")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := draw(ctx, *out, *only)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// draw draws the pages over new fixtures.
func draw(ctx context.Context, out, only string) error {
	if out == "" {
		return fmt.Errorf("name the folder of the pictures with --out")
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return fmt.Errorf("making the folder: %w", err)
	}
	folder, err := os.MkdirTemp("", "csenv-pictures-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer os.RemoveAll(folder)
	program, err := browser.Build(ctx, folder)
	if err != nil {
		return err
	}
	store := filepath.Join(folder, "store")
	if err := browser.Play(ctx, program, folder, store); err != nil {
		return err
	}
	site, err := browser.Serve(ctx, program, folder, store)
	if err != nil {
		return err
	}
	defer func() { _ = site.Stop(5 * time.Second) }()
	b, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer b.Stop()
	pages, err := browser.Pages(b, site, store)
	if err != nil {
		return err
	}
	for _, p := range pages {
		for _, look := range browser.Looks {
			name := fmt.Sprintf("%s-%d-%s.png", p.Name, look.Width, look.Scheme)
			if only != "" && only != p.Name {
				continue
			}
			if err := picture(b, site, p, look, filepath.Join(out, name)); err != nil {
				return fmt.Errorf("drawing %s: %w", name, err)
			}
			fmt.Println(name)
		}
	}
	return nil
}

// picture draws one page into a file.
func picture(b *browser.Browser, site *browser.Site, p browser.Page, look browser.Look, path string) error {
	tab, err := b.Open(look, site.URL)
	if err != nil {
		return err
	}
	defer tab.Close()
	if _, err := tab.Load(p.Path); err != nil {
		return err
	}
	data, err := tab.Screenshot(look, maxHeight)
	if err != nil {
		return err
	}
	if data, err = shrink(data); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
