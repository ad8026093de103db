package page

// maxText is the length, in characters, to which pages cut a text from outside.
const maxText = 20_000

// cutText is the beginning of a text and the number of characters that are left out.
type cutText struct {
	Text string
	Left int
}
