package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csenv/csenv/cmd/csenv/view"
)

// WriteUsage writes cobra's usage of a command with wrapped descriptions of flags. Cobra has
// templates for this, but with them the linker would keep every method of every type in the
// program.
func WriteUsage(cmd *cobra.Command) error {
	out := cmd.OutOrStderr()
	var text strings.Builder
	cmd.SetOut(&text)
	err := new(cobra.Command).UsageFunc()(cmd)
	cmd.SetOut(out)
	if err != nil {
		return err
	}
	wrapped := text.String()
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		wrapped = strings.Replace(wrapped, strings.TrimSpace(flags.FlagUsages()),
			strings.TrimSpace(flags.FlagUsagesWrapped(view.Width)), 1)
	}
	_, err = io.WriteString(out, wrapped)
	return err
}
