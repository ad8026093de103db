// Package shipped says how programs are built, and which of them the image has.
package shipped

// Tags are the build tags of every program that is given away. They leave out what csenv doesn't
// use: parts of Google's storage client for gRPC, and the pages of gRPC's traces.
const Tags = "disable_grpc_modules,grpcnotrace"

// Image is the package of the image's only program, which is all programs, and ImageTags are its
// tags. The program is smaller than the programs together, because they share most of their code.
const (
	Image     = "./cmd/csenv"
	ImageTags = Tags + ",image"
)

// Links are the names, besides csenv, under which the image has the program. The name by which it
// is called decides what it does.
func Links() []string { return []string{"envserver", "manager", "runner"} }
