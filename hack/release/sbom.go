package main

import (
	"bytes"
	"fmt"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// writeSBOM describes a program: its modules with their checksums, and how it was built.
func (r *release) writeSBOM(name, file string) error {
	generator, err := bin.NewGenerator(file, bin.WithVersionOverride(r.version), bin.WithIncludeStdlib(true),
		bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return err
	}
	bom, err := generator.Generate()
	if err != nil {
		return fmt.Errorf("describing %s: %w", name, err)
	}
	sum, err := hashOf(file)
	if err != nil {
		return err
	}
	// Number and time depend on what is described, so that the same program has the same SBOM.
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(name+" "+sum)).URN()
	bom.Metadata.Timestamp = r.created.Format(time.RFC3339)
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).
		EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return err
	}
	return r.write(name+".cdx.json", text.Bytes())
}
