package llm

// LeftOut says what requests leave out because the endpoint refuses it, since when and of how many;
// "" for nothing.
func (j *Judge) LeftOut() string { return j.client.completions.LeftOut() }
