package source

// Tree is where the names and attributes of files come from. Paths are relative to its
// root, with slashes; "" is the root. It is safe for concurrent use.
type Tree interface {
	// List returns the members of a directory in the order in which a mount shows
	// them: by name, or as they lie in the packs of a store.
	List(dir string) ([]Entry, error)
	// Stat returns the attributes of a file or directory, links followed.
	Stat(path string) (Attr, error)
	// Fresh is Stat that goes past what a network file system has cached.
	Fresh(path string) (Attr, error)
}
