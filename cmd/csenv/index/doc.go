// Package index keeps an index of stored episodes in a file, so that pages about a million episodes
// are fast.
//
// The file is a SQLite database with a row for each segment of a store. Segments don't change, so
// each one is read once. The row has what lists and figures need of the segment's records, encoded
// in one blob, and a full-text table has the words of each record. A query loads the blobs of its
// run into memory, about 64 bytes for each record, and filters, sorts and counts there: no
// combination of filters needs its own database index. Runs that were used last stay loaded.
//
// The index is a cache: a file that is damaged or of another release is written again.
package index
