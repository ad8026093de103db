package score

// Histogram counts the episodes in the figures by score: bin i holds the scores from i/Bins up to
// (i+1)/Bins, the last one the full score too.
func (a *Accumulator) Histogram() [Bins]int64 { return a.allTasks().Hist }
