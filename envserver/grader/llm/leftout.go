package llm

// LeftOut are the parts of requests that the endpoint has refused so far.
func (j *Judge) LeftOut() []string { return j.client.lacks().Names() }
