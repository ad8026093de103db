package source

// The stores that results can be in beside folders. They are more than half of the program, and so
// are imported here and nowhere below envserver.
import (
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/blob/gcsblob"
	_ "gocloud.dev/blob/s3blob"
)
