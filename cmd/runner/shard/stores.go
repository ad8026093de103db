package shard

import (
	// The drivers of stores other than folders. They make up much of the program, so no package of
	// envserver imports them.
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/blob/gcsblob"
	_ "gocloud.dev/blob/s3blob"
)
