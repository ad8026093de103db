// Package previous finds the release before this checkout, with which it must stay compatible.
package previous

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// revisionVariable names another revision than the previous release's.
	revisionVariable = "CSENV_UPGRADE_FROM"
	// requiredVariable turns a skip for want of history into a failure, for CI.
	requiredVariable = "CSENV_REQUIRE_HISTORY"
	// untagged is compared with until there is a tag.
	untagged = "bfc79581f841651957aeab1112ea30a62c8a22de"
)

// ErrNoHistory means that the checkout doesn't contain the previous release, for example because
// its clone is shallow.
var ErrNoHistory = errors.New("the checkout doesn't contain the previous release")

// IsHistoryRequired reports whether a checkout without history is a failure.
func IsHistoryRequired() bool { return os.Getenv(requiredVariable) != "" }

// Release is a revision of a checkout.
type Release struct {
	Name     string // a tag, or an abbreviated hash
	revision string
	checkout string
}

// FindRelease returns the newest tag of a version before HEAD.
func FindRelease(ctx context.Context, checkout string) (Release, error) {
	tag, err := runGit(ctx, checkout, "describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD^")
	if err != nil {
		tag = nil // there is none
	}
	name := cmp.Or(os.Getenv(revisionVariable), strings.TrimSpace(string(tag)), untagged)
	hash, err := runGit(ctx, checkout, "rev-parse", "--verify", "--quiet", name+"^{commit}")
	if err != nil {
		return Release{}, fmt.Errorf("%w, %s: run `git fetch --unshallow --tags`, or name another revision with %s",
			ErrNoHistory, name, revisionVariable)
	}
	revision := strings.TrimSpace(string(hash))
	if strings.HasPrefix(revision, name) {
		name = revision[:7]
	}
	return Release{Name: name, revision: revision, checkout: checkout}, nil
}

// Files returns the content of the release's files in a folder, by name.
func (r Release) Files(ctx context.Context, folder string) (map[string][]byte, error) {
	list, err := runGit(ctx, r.checkout, "ls-tree", "--full-tree", "--name-only", r.revision, folder+"/")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name := range strings.FieldsSeq(string(list)) {
		if files[filepath.Base(name)], err = runGit(ctx, r.checkout, "show", r.revision+":"+name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// Extract writes all files of the release to an existing folder.
func (r Release) Extract(ctx context.Context, folder string) error {
	top, err := runGit(ctx, r.checkout, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	archive, err := runGit(ctx, strings.TrimSpace(string(top)), "archive", "--format=tar", r.revision)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "tar", "-x", "-C", folder)
	cmd.Stdin = bytes.NewReader(archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking %s: %w: %s", r.Name, err, out)
	}
	return nil
}

func runGit(ctx context.Context, folder string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", folder}, args...)...) //nolint:gosec // no shell
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
