// Command install installs what the tests in a browser need: Chromium, with apt-get as root, and
// axe-core, with npm.
//
//	go run ./hack/browser/install
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"github.com/csenv/csenv/hack/browser"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := errors.Join(installChromium(ctx), browser.InstallAxe(ctx, os.Stderr))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// installChromium installs Debian's Chromium, unless there is one.
func installChromium(ctx context.Context) error {
	_, err := browser.FindChromium()
	if !errors.Is(err, browser.ErrMissing) {
		return err
	}
	if _, noApt := exec.LookPath("apt-get"); noApt != nil || os.Geteuid() != 0 {
		return err
	}
	fmt.Fprintln(os.Stderr, "==> installing Chromium with apt-get")
	for _, args := range [][]string{{"update", "-q"}, {"install", "-q", "-y", "--no-install-recommends", "chromium",
		"fonts-dejavu-core"}} {
		command := exec.CommandContext(ctx, "apt-get", args...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %v: %w\n%s", args, err, output)
		}
	}
	return nil
}
