package cases

// Distracts reports whether one of the composition's modifiers changes nothing about what is right.
func (c *Composition) Distracts() (bool, error) {
	m, err := c.measureCase()
	return !m.matters, err
}

// Compose composes a case that isn't shown as a ticket.
func (s *Set) Compose(family string, modifiers []string, language string) (*Composition, error) {
	return s.composeCase(family, modifiers, language, false)
}
