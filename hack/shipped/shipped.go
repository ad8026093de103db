// Package shipped says how programs are built, and what the image has.
package shipped

import "github.com/csenv/csenv/hack/image"

// Tags are the build tags of every program that is given away. They leave out what csenv doesn't
// use: parts of Google's storage client for gRPC, and the pages of gRPC's traces.
const Tags = "disable_grpc_modules,grpcnotrace"

// CommandLine is the package of the command line. Built with ImageTags, it is all programs, and the
// image's only one. It is smaller than the programs together, which share most of their code.
const (
	CommandLine = "./cmd/csenv"
	ImageTags   = Tags + ",image"
)

// Entrypoint runs in containers without a command, because OpenEnv's tools pass none.
const Entrypoint = "/envserver"

// Links are the names, besides csenv, under which the image has the program. The name by which
// it is called decides what it does.
var Links = []string{"envserver", "manager", "runner"}

// BuildArgs returns the arguments with which the go command builds a package into a file.
func BuildArgs(version, tags, file, pkg string) []string {
	return []string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-tags", tags,
		"-ldflags", "-s -w -X main.version=" + version, "-o", file, pkg}
}

// ListFiles are the files of the image: the program, its links, and the authorities that it trusts.
func ListFiles(program []byte) ([]image.File, error) {
	certificates, err := image.CertificatesFile()
	if err != nil {
		return nil, err
	}
	files := []image.File{{Path: "csenv", Content: program, Mode: 0o755}, certificates}
	for _, name := range Links {
		files = append(files, image.File{Path: name, Link: "csenv"})
	}
	return files, nil
}
