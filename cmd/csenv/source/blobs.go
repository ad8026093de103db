package source

// The drivers of bucket stores make up half of the binary, so no package of envserver imports them.
import (
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/blob/gcsblob"
	_ "gocloud.dev/blob/s3blob"
)
