package epoch

// Samples is the list of the samples below a directory of the dataset, as ImageFolder of
// torchvision lists them. It never changes.
type Samples struct{ list *list }

// Samples returns the list of a directory as it is now; "" is all of the dataset.
func (v *Views) Samples(dir string) (*Samples, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l, err := v.newest(dir)
	if err != nil {
		return nil, err
	}
	return &Samples{l}, nil
}

// Len is the number of samples.
func (s *Samples) Len() int { return len(s.list.ids) }

// Path of a sample in the dataset.
func (s *Samples) Path(i int) string { return s.list.path(i) }

// Same reports whether both are one list.
func (s *Samples) Same(other *Samples) bool { return s.list == other.list }

// Digest tells lists apart: the SHA-256 of all paths, each with a newline behind it, in
// hexadecimal digits.
func (s *Samples) Digest() string { return s.list.sum() }
