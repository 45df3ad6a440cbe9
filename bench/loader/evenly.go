package loader

// Evenly picks n of the names, evenly spread, or all where there are no more.
func Evenly(names []string, n int) []string {
	if len(names) <= n {
		return names
	}
	picked := make([]string, n)
	for i := range picked {
		picked[i] = names[i*len(names)/n]
	}
	return picked
}
