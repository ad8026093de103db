package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// cniFolder is the folder of the CNI plugins in Debian and Ubuntu.
const cniFolder = "/usr/lib/cni"

// requirement is a file that the node needs and the package that contains it.
type requirement struct{ file, pkg string }

// listRequirements lists the programs that aren't Go modules. A bare name is looked up in PATH.
func listRequirements() []requirement {
	return []requirement{
		{"containerd", "containerd"},
		{"ctr", "containerd"},
		{"runc", "runc"},
		{filepath.Join(cniFolder, "ptp"), "containernetworking-plugins"},
		{"iptables-restore", "iptables"},
		{"conntrack", "conntrack"},
		{"socat", "socat"},
		{"ethtool", "ethtool"},
		{"ip", "iproute2"},
		{"mount", "mount"},
		{"nsenter", "util-linux"},
	}
}

// missingPackages lists the packages whose files lookup doesn't find, without duplicates.
func missingPackages(lookup func(file string) bool) []string {
	var missing []string
	for _, r := range listRequirements() {
		if !lookup(r.file) && !slices.Contains(missing, r.pkg) {
			missing = append(missing, r.pkg)
		}
	}
	return missing
}

// onMachine also searches the sbin folders, which a user's PATH may lack.
func onMachine(file string) bool {
	if _, err := exec.LookPath(file); err == nil {
		return true
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			return true
		}
	}
	return false
}

// checkMachine returns an error if a node can't run directly on this machine.
func checkMachine() error {
	const instead = "install Docker and kind, and the same commands use those"
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a cluster without kind needs Linux, this is %s: %s", runtime.GOOS, instead)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("a cluster without kind needs root: run this as root, or %s", instead)
	}
	return nil
}

// ensurePackages installs missing packages on Debian and Ubuntu.
func ensurePackages(ctx context.Context, progress io.Writer) error {
	// This is first because a killed run may have left its policy after installing everything.
	if err := releaseServices(servicePolicy); err != nil {
		return err
	}
	missing := missingPackages(onMachine)
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("these programs are missing and there is no apt-get to install them with: install your "+
			"distribution's packages of %s", list)
	}
	logProgressf(progress, "installing Debian packages: %s", list)
	if err := holdServices(servicePolicy); err != nil {
		return err
	}
	defer func() { _ = releaseServices(servicePolicy) }()
	if err := aptGet(ctx, progress, "update"); err != nil {
		return err
	}
	if err := aptGet(ctx, progress, append([]string{"install", "--no-install-recommends", "-y"},
		missing...)...); err != nil {
		return err
	}
	if missing = missingPackages(onMachine); len(missing) > 0 {
		return fmt.Errorf("after installing, programs of these packages are still missing: %s",
			strings.Join(missing, " "))
	}
	return nil
}

func aptGet(ctx context.Context, progress io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=120"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	stop := showLife(progress, func(elapsed time.Duration) string {
		return fmt.Sprintf("apt-get %s, %s", args[0], elapsed.Round(time.Second))
	})
	defer stop()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running apt-get %s: %w\n%s", strings.Join(args, " "), err, lastLines(string(out), 15))
	}
	return nil
}

// servicePolicy is the program that decides whether Debian's package scripts may start a service.
const servicePolicy = "/usr/sbin/policy-rc.d"

// heldServices forbids every start. Its second line distinguishes it from a policy of the machine,
// so that the next run removes the file that a killed run left.
const heldServices = "#!/bin/sh\n# Made by csenv's hack/cluster while it installs packages.\nexit 101\n"

// holdServices prevents the packages' services, above all containerd, from starting during the
// installation. It keeps an existing policy.
func holdServices(policy string) error {
	file, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700) //nolint:gosec // scripts run it
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("preventing services from starting: %w", err)
	}
	_, err = file.WriteString(heldServices)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("preventing services from starting: %w", err)
	}
	return nil
}

// releaseServices removes the policy if holdServices created it.
func releaseServices(policy string) error {
	content, err := os.ReadFile(policy)
	if errors.Is(err, os.ErrNotExist) || err == nil && string(content) != heldServices {
		return nil
	}
	if err == nil {
		err = os.Remove(policy)
	}
	if err != nil {
		return fmt.Errorf("allowing services to start again: %w", err)
	}
	return nil
}
