package shard

// The drivers of stores other than folders. They make up more than half of the program, so no
// package of envserver imports them.
import (
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/blob/gcsblob"
	_ "gocloud.dev/blob/s3blob"
)
