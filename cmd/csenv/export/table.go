package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/csenv/csenv/cmd/csenv/view"
)

// jsonLines writes a row as a JSON object on a line.
type jsonLines struct{ to *json.Encoder }

func newJSONLines(w io.Writer) writer {
	to := json.NewEncoder(w)
	to.SetEscapeHTML(false)
	return jsonLines{to}
}

func (w jsonLines) add(t *trajectory) error {
	r, err := newRow(t)
	if err != nil {
		return err
	}
	return w.to.Encode(r)
}

func (w jsonLines) close() error { return nil }

// rowsInMemory is the number of rows that are buffered before they are written as a group.
const rowsInMemory = 1000

// table writes rows as a Parquet file.
type table struct{ to *parquet.GenericWriter[*row] }

func newTable(w io.Writer) table {
	return table{parquet.NewGenericWriter[*row](w, parquet.Compression(&parquet.Zstd),
		parquet.MaxRowsPerRowGroup(rowsInMemory), parquet.CreatedBy("csenv", "", ""))}
}

func newParquet(w io.Writer) writer { return newTable(w) }

func (w table) add(t *trajectory) error {
	r, err := newRow(t)
	if err != nil {
		return err
	}
	if _, err := w.to.Write([]*row{r}); err != nil {
		return fmt.Errorf("writing a table: %w", err)
	}
	return nil
}

func (w table) close() error {
	if err := w.to.Close(); err != nil {
		return fmt.Errorf("writing a table: %w", err)
	}
	return nil
}

// dataset writes the layout of Hugging Face datasets: a Parquet file for each split, and a card.
type dataset struct {
	folder *folder
	splits map[string]*splitFile
}

type splitFile struct {
	table
	file io.WriteCloser
	rows int
}

func newDataset(f *folder) writer { return &dataset{f, map[string]*splitFile{}} }

// datasetSplit names the split of a dataset with the scenarios of a split.
func datasetSplit(scenarios string) string {
	switch scenarios {
	case "public-dev":
		return "validation"
	case "public-test":
		return "test"
	case "private":
		return "private"
	default:
		return "train"
	}
}

func dataFile(split string) string { return "data/" + split + "-00000-of-00001.parquet" }

func (w *dataset) add(t *trajectory) error {
	name := datasetSplit(t.split)
	if w.splits[name] == nil {
		file, err := w.folder.create(dataFile(name))
		if err != nil {
			return err
		}
		w.splits[name] = &splitFile{table: newTable(file), file: file}
	}
	w.splits[name].rows++
	return w.splits[name].add(t)
}

func (w *dataset) close() error {
	names := slices.Sorted(maps.Keys(w.splits))
	var files, counts bytes.Buffer
	for _, name := range names {
		s := w.splits[name]
		if err := errors.Join(s.close(), s.file.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&files, "  - split: %s\n    path: %s\n", name, dataFile(name))
		fmt.Fprintf(&counts, "- `%s`: %s\n", name, view.FormatCount(s.rows, "episode"))
	}
	return w.folder.write("README.md", fmt.Appendf(nil, card, files.String(), counts.String()))
}

// card is the description of a dataset.
const card = `---
configs:
- config_name: default
  data_files:
%s---

# Episodes of csenv

Episodes of agents that handle customer-support tickets and workflows, one row each:

%s
` + "`messages` and `tools` have the form of chat completions, for `datasets` and TRL. `steps` has the reward of\n" +
	"each action and, if the model's endpoint returned them, the token ids and log-probabilities.\n" +
	"Every row names the split of its scenario: don't train on scenarios by which you evaluate.\n"
