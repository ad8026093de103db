package authoring

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/cases"
)

// packName is the form of a generated pack's name, which begins the ids of its cases.
var packName = regexp.MustCompile(`^[a-z][a-z0-9]{0,7}$`)

// publicCanary is the built-in pack's canary.
const publicCanary = "csenv-canary 3d0c7a2e-6b0f-4a51-9d5e-1f2b7c8a9e10"

func newGenerateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "generate NAME", Short: "Write a pack of generated cases", Args: cobra.ExactArgs(1)}
	cli.SetHelp(cmd, "generate")
	o := cases.Options{}
	var folder string
	var public, tickets, builtIn bool
	var count int
	f := cmd.Flags()
	f.StringVarP(&folder, "output", "o", "", "`folder` of the pack; it must not exist or be empty")
	f.StringSliceVar(&o.Families, "families", nil, "families of the cases; by default all")
	f.StringVar(&o.Salt, "salt", "", "key of the drawn values, 16 to 256 bytes; random by default")
	f.StringVar(&o.Language, "language", "en", "language of the texts")
	f.IntVar(&o.PerDifficulty, "per-difficulty", 12, "maximum number of cases of a family and a difficulty")
	f.BoolVar(&tickets, "tickets", false, "show the cases as tickets, for ticket-classify and ticket-resolve")
	f.IntVar(&count, "count", 300, "number of tickets, about as many of each category")
	f.BoolVar(&public, "public", false, "without a salt, split into public-train, public-dev and public-test")
	f.BoolVar(&o.TrainVoices, "train-voices", false, "write every split in the voices for training, so that splits "+
		"differ in combinations alone")
	f.BoolVar(&builtIn, "built-in", false, "write the list of the built-in pack into an existing folder")
	_ = f.MarkHidden("built-in")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.List = args[0]
		switch {
		case folder == "":
			return errors.New("name the pack's folder with -o")
		case !packName.MatchString(o.List):
			return fmt.Errorf("%q isn't a name of 1 to 8 lower-case letters and digits, a letter first", o.List)
		case tickets && count < 1:
			return fmt.Errorf("--count is %d: give at least 1", count)
		case public && o.Salt != "":
			return errors.New("--public and --salt exclude each other: a public pack has no salt")
		}
		if tickets {
			o.Tickets = count
		}
		if builtIn {
			return writePublicList(folder, o)
		}
		o.Private = !public
		return generatePack(cmd.OutOrStdout(), folder, o)
	}
	return cmd
}

// writePublicList writes the list of the built-in pack.
func writePublicList(folder string, o cases.Options) error {
	c, err := cli.LoadCatalog([]string{folder})
	if err != nil {
		return err
	}
	o.Private, o.List = false, cases.PublicList(o.Language)
	return writeList(c, filepath.Join(folder, "families", o.List+".yaml"), publicCanary, o)
}

func writeList(c *scenarios.Catalog, path, canary string, o cases.Options) error {
	if c.CaseSet() == nil {
		return errors.New("the catalogue has no families of cases")
	}
	all, err := c.CaseSet().Generate(o)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("no family has texts in %q", o.Language)
	}
	var b bytes.Buffer
	if err := cases.WriteList(&b, canary, o, all); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}

// generatePack writes a flat pack, with a salt of its own unless it is public.
func generatePack(out io.Writer, folder string, o cases.Options) error {
	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s isn't empty: choose another folder", folder)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c, err := scenarios.LoadPublic()
	if err != nil {
		return err
	}
	manifest, canary := fmt.Sprintf("name: %s\nversion: 1\n", o.List), publicCanary
	if o.Private {
		o.Salt = cmp.Or(o.Salt, rand.Text())
		manifest += fmt.Sprintf("salt: %q\n", o.Salt)
		canary = "csenv-canary " + uuid.NewString()
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "pack.yaml"), []byte(manifest), 0o600); err != nil {
		return err
	}
	if err := writeList(c, filepath.Join(folder, o.List+".yaml"), canary, o); err != nil {
		return err
	}
	written, err := scenarios.LoadFolders("", folder)
	if err != nil {
		return fmt.Errorf("reading the new pack: %w", err)
	}
	own, what := len(written.Cases())-len(c.Cases()), "case"
	if o.Tickets > 0 {
		own, what = len(written.Tickets())-len(c.Tickets()), "ticket"
	}
	fmt.Fprintf(out, "wrote %s to %s\ndigest of the catalogue with it: %s\n", view.FormatCount(own, what), folder,
		written.Digest())
	return nil
}
