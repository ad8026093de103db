package cases

// Distracts reports whether one of the composition's modifiers changes nothing about what is right.
func (c *Composition) Distracts() (bool, error) {
	m, err := c.measure()
	return !m.matters, err
}
