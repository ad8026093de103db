package authoring

import (
	"bytes"
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
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/cases"
)

// packName is the form of a generated pack's name, which begins the ids of its cases.
var packName = regexp.MustCompile(`^[a-z][a-z0-9]{0,7}$`)

// publicCanary is that of the built-in pack.
const publicCanary = "csenv-canary 3d0c7a2e-6b0f-4a51-9d5e-1f2b7c8a9e10"

func newGenerateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "generate NAME", Short: "Write a pack of generated cases", Args: cobra.ExactArgs(1)}
	cli.Help(cmd, "generate")
	o := cases.Options{Private: true}
	var folder string
	var public bool
	f := cmd.Flags()
	f.StringVarP(&folder, "output", "o", "", "`folder` of the pack; it must not exist or be empty")
	f.StringSliceVar(&o.Families, "families", nil, "families of the cases; by default all")
	f.StringVar(&o.Salt, "salt", "", "key of the drawn values, 16 to 256 bytes; random by default")
	f.StringVar(&o.Language, "language", "en", "language of the texts")
	f.IntVar(&o.PerDifficulty, "per-difficulty", 12, "maximum number of cases of a family and a difficulty")
	f.BoolVar(&public, "public", false, "write the list of the built-in pack into an existing folder")
	_ = f.MarkHidden("public")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.List = args[0]
		switch {
		case folder == "":
			return errors.New("name the pack's folder with -o")
		case !packName.MatchString(o.List):
			return fmt.Errorf("%q isn't a name of 1 to 8 lower-case letters and digits, a letter first", o.List)
		}
		if public {
			return writePublicList(folder, o)
		}
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
	if err := cases.WriteList(&b, o.List, canary, o.Language, all); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}

// generatePack writes a pack with a salt of its own.
func generatePack(out io.Writer, folder string, o cases.Options) error {
	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s isn't empty: choose another folder", folder)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c, err := scenarios.Public()
	if err != nil {
		return err
	}
	if o.Salt == "" {
		o.Salt = rand.Text()
	}
	if err := os.MkdirAll(filepath.Join(folder, "families"), 0o700); err != nil {
		return err
	}
	manifest := fmt.Sprintf("name: %s\nversion: 1\nsalt: %q\n", o.List, o.Salt)
	if err := os.WriteFile(filepath.Join(folder, "pack.yaml"), []byte(manifest), 0o600); err != nil {
		return err
	}
	canary := "csenv-canary " + uuid.NewString()
	if err := writeList(c, filepath.Join(folder, "families", o.List+".yaml"), canary, o); err != nil {
		return err
	}
	written, err := scenarios.LoadFolders("", folder)
	if err != nil {
		return fmt.Errorf("reading the new pack: %w", err)
	}
	own := len(written.Cases()) - len(c.Cases())
	fmt.Fprintf(out, "wrote %d cases to %s\ndigest of the catalogue with it: %s\n", own, folder, written.Digest())
	return nil
}
