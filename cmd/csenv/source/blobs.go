package source

import (
	// The drivers of bucket stores make up half of the binary, so no package of envserver imports
	// them.
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/blob/gcsblob"
	_ "gocloud.dev/blob/s3blob"
)
