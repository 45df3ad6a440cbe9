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

// Dataset is a tree whose files can be read: a [Directory]. It is safe for
// concurrent use.
type Dataset interface {
	Tree
	// Root is where it is: the absolute path of a directory, or a URL.
	Root() string
	// Open opens a regular file for reading.
	Open(name string) (*File, error)
	// OpenAs opens a file for reading that had an identity before. Whether it still has is
	// known only once Verify agrees: what is read until then may be of any other file.
	OpenAs(name string, id Identity) (*File, error)
	// Close releases the dataset; files opened from it stay open.
	Close() error
}
