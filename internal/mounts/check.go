package mounts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Check says whether something can be mounted at dir, a resolved path. Where a
// dead mount of ours lies there, dead is true and it has to be unmounted first.
func Check(dir string, nonempty bool) (dead bool, err error) {
	here, err := At(dir)
	if err != nil {
		return false, err
	}
	mounted := here != nil
	info, err := Stat(dir)
	if err == nil && mounted {
		err = Probe(dir)
	}
	switch {
	case mounted && here.Ours() && here.place().Dead(err):
		return true, nil
	case Dead(err) && mounted:
		return false, fmt.Errorf("%s holds a dead %s mount (%w); unmount it first: umount -l %s", dir, here.FSType, err, dir)
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("the mount directory %s does not exist; make it first: mkdir -p %s", dir, dir)
	case errors.Is(err, ErrHung):
		return false, fmt.Errorf("the mount directory %s does not answer: %w; if a dead mount lies there, unmount it first: umount -l %s", dir, err, dir)
	case mounted && here.Ours():
		// before the other errors: a mount of another user answers EACCES, even to root
		return false, fmt.Errorf("%s is already a pipefs mount, of %s; unmount it first (pipefs umount %s) or mount elsewhere", dir, here.Source, dir)
	case err != nil:
		return false, err
	case !info.IsDir():
		return false, fmt.Errorf("%s is not a directory; pipefs mounts on a directory", dir)
	case nonempty:
		return false, nil
	}
	empty, err := Answer(dir, Patience, func() (bool, error) { return isEmpty(dir) })
	if err != nil {
		return false, err
	}
	if !empty {
		return false, fmt.Errorf("the mount directory %s is not empty, and a mount would hide its files; name an empty directory", dir)
	}
	return false, nil
}

func isEmpty(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// Apart refuses a mount directory and a dataset that hold each other: the mount
// would list itself without end, or hide what it reads from.
func Apart(dir, dataset string) error {
	switch {
	case Inside(dir, dataset) && Inside(dataset, dir):
		return fmt.Errorf("%s is both what is mounted and where; mounting it over itself would hide it, so take another directory", dir)
	case Inside(dir, dataset):
		return fmt.Errorf("the mount directory %s lies inside %s, and so would list itself without end; take one outside of it", dir, dataset)
	case Inside(dataset, dir):
		return fmt.Errorf("%s lies inside the mount directory %s, which would hide it; take another mount directory", dataset, dir)
	}
	return nil
}

// FileSystem says what kind of file system holds a file.
type FileSystem struct {
	Name string // "ext4", "NFS"; "of the unknown type 0x1234" where nobody knows it
	// Local: every change is made through this kernel, which can tell of it. All that
	// is not known to be local is not.
	Local bool
}

// fileSystems are the kinds by the number that statfs(2) gives.
var fileSystems = map[uint32]FileSystem{
	unix.EXT4_SUPER_MAGIC:      {"ext4", true}, // and ext2, ext3
	unix.XFS_SUPER_MAGIC:       {"XFS", true},
	unix.BTRFS_SUPER_MAGIC:     {"Btrfs", true},
	unix.F2FS_SUPER_MAGIC:      {"F2FS", true},
	unix.TMPFS_MAGIC:           {"tmpfs", true},
	unix.RAMFS_MAGIC:           {"ramfs", true},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlayfs", true},
	unix.MSDOS_SUPER_MAGIC:     {"VFAT", true},
	unix.EXFAT_SUPER_MAGIC:     {"exFAT", true},
	unix.REISERFS_SUPER_MAGIC:  {"ReiserFS", true},
	unix.NILFS_SUPER_MAGIC:     {"NILFS2", true},
	unix.ISOFS_SUPER_MAGIC:     {"ISO 9660", true},
	unix.UDF_SUPER_MAGIC:       {"UDF", true},
	unix.SQUASHFS_MAGIC:        {"SquashFS", true},
	unix.EROFS_SUPER_MAGIC_V1:  {"EROFS", true},
	0x2fc12fc1:                 {"ZFS", true},
	0xca451a4e:                 {"bcachefs", true},
	0x3153464a:                 {"JFS", true},
	0x7366746e:                 {"NTFS", true}, // ntfs3
	unix.NFS_SUPER_MAGIC:       {"NFS", false},
	unix.SMB_SUPER_MAGIC:       {"SMB", false},
	unix.CIFS_SUPER_MAGIC:      {"SMB", false},
	unix.SMB2_SUPER_MAGIC:      {"SMB", false},
	unix.FUSE_SUPER_MAGIC:      {"FUSE", false}, // and virtiofs
	unix.CEPH_SUPER_MAGIC:      {"Ceph", false},
	unix.V9FS_MAGIC:            {"9p", false},
	unix.AFS_SUPER_MAGIC:       {"AFS", false},
	unix.AFS_FS_MAGIC:          {"AFS", false},
	unix.CODA_SUPER_MAGIC:      {"Coda", false},
	0x0bd00bd0:                 {"Lustre", false},
	0x47504653:                 {"GPFS", false},
	0x19830326:                 {"BeeGFS", false},
	0x7461636f:                 {"OCFS2", false},
	0x01161970:                 {"GFS2", false},
	0xaad7aaea:                 {"PanFS", false},
	0x20030528:                 {"OrangeFS", false},
	0x786f4256:                 {"VirtualBox's shared folder", false},
}

// FileSystemOf asks an open file what kind of file system it lies in.
func FileSystemOf(fd int) (FileSystem, error) {
	var st unix.Statfs_t
	for {
		err := unix.Fstatfs(fd, &st)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return FileSystem{}, &fs.PathError{Op: "statfs", Path: fmt.Sprintf("descriptor %d", fd), Err: err}
		}
	}
	kind, ok := fileSystems[uint32(st.Type)]
	if !ok {
		kind.Name = fmt.Sprintf("of the unknown type %#x", uint32(st.Type))
	}
	return kind, nil
}
