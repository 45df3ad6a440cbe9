package mountd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/ahead"
	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/prepare"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source/archive"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/internal/supervise"
	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/python"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// Mount is a file system that is mounted, with all that stands behind it.
type Mount struct {
	config     *Config
	log        *slog.Logger
	registry   *transcode.Registry
	server     *serve.Server
	fs         *fs.FS
	point      *fs.Mountpoint
	place      mounts.Place
	control    *control.Server
	background *prepare.Background
	gpu        *l3gpu.Starting // nil with GPU.Off
	epochs     *epoch.Views
	ahead      *ahead.Queue
	packed     string   // the store's directory, if there is one
	listed     []string // the views that the root lists
	gaps       *Gaps    // of the views that it might list
	fresh      freshness
	memory     budgets
	bucket     *bucket.Bucket   // the dataset, or its archives, where they are in one; else nil
	archives   *archive.Dataset // the dataset, where it is the members of archives; else nil
	refreshes  refreshes
	account    *account.Ledger
	trace      account.Recorder
	presence   presence
	store      *store.Store // at packed; else nil
	storeFiles *remote.FS   // of the store, where it is in a bucket; else nil
	started    time.Time
	until      context.Context   // of requests to buckets
	cancel     func()            // ends until
	blocks     *blockcache.Cache // of what is read of buckets; nil keeps nothing
	// close holds what has to be closed, the first one opened first.
	close []func() error
}

// Start mounts, and returns when the mount answers, which may take so long. Cancelling
// ctx ends that, and nothing else.
func Start(ctx context.Context, c Config, patience time.Duration) (*Mount, error) {
	c.status(c.Source + " to be opened")
	m, err := mount(ctx, &c)
	if err != nil {
		return nil, err
	}
	if c.Kernel.ControlPipe != nil {
		return m, nil // the supervisor looks at the mount: this process must not wait for its own answer
	}
	c.status("the mount " + c.Dir + " to answer")
	link := filepath.Join(c.Dir, control.Link)
	if _, err = mounts.Answer(link, patience, func() (string, error) { return os.Readlink(link) }); err != nil {
		err = fmt.Errorf("the mount does not answer: %w", err)
	} else if ctx.Err() != nil {
		err = fmt.Errorf("interrupted before the mount was ready: %w", ctx.Err())
	}
	if err != nil {
		return nil, errors.Join(err, m.Stop())
	}
	return m, nil
}

// mount opens all that stands behind a mount, from the disk to the kernel.
func mount(ctx context.Context, c *Config) (_ *Mount, err error) {
	m := &Mount{config: c, log: c.Log, started: time.Now(), account: account.New()}
	m.until, m.cancel = context.WithCancel(context.Background())
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.closeAll())
		}
	}()
	m.memory = c.fitMemory(m.log)
	o := serve.Options{
		Roles: c.Roles, CacheBytes: max(c.Cache.Bytes, 1), // 0 is the default there
		WorkBytes: m.memory.work,
		Memfd:     c.Cache.Mode == fs.DaemonCache,
		Workers:   c.Workers, ForceRandom: c.Views.ForceRandom, Log: m.log,
		OnError: c.Views.OnError, ErrorLimit: c.Views.ErrorLimit, Account: m.account,
	}
	if err := m.openSources(ctx, &o); err != nil {
		return nil, err
	}
	backend, err := m.openGPU()
	if err != nil {
		return nil, err
	}
	m.registry = Registry(c.Limits, o.Store, backend)
	o.Registry = m.registry
	tuned := m.tuned(o.Store)
	mix := c.Views.Mix.view(tuned, o.Store)
	o.Policy, o.Observe = c.policy(storedShare(o.Store, mix))
	if o.Cache, err = c.Cache.open(); err != nil {
		return nil, err
	}
	if m.server, err = serve.New(o); err != nil {
		return nil, err
	}
	m.close = append(m.close, m.server.Close)
	m.epochs = epoch.New(epoch.Options{
		Registry: m.registry, Server: m.server, Budget: c.Cache.Bytes, Workers: c.Workers, Account: m.account, Log: m.log,
		Far:    m.fetchedAhead(),
		Roles:  c.Roles,
		Tables: c.Views.tables(), Unlabelled: m.unlabelled(), Metadata: m.metadata(),
	})
	m.close = append(m.close, m.epochs.Close)
	m.ahead = ahead.New(ahead.Options{Server: m.server, Lists: m.epochs, Budget: c.Cache.ahead(), Log: m.log})
	m.close = append(m.close, m.ahead.Close)
	m.background = prepare.Start(m.server, prepare.Options{Views: !c.Keep.NoBackground, Overlay: o.Overlay, Workers: c.Workers, Log: m.log})
	m.close = append(m.close, m.background.Close)
	socket, err := control.Socket(c.Dir)
	if err != nil {
		return nil, err
	}
	links := m.links(mix, tuned)
	if err := m.openFS(socket, links); err != nil {
		return nil, err
	}
	if c.Kernel.ControlPipe != nil {
		socket = control.Behind(socket) // the supervisor answers there
	}
	m.refreshes.open()
	m.close = append(m.close, m.refreshes.close, m.trace.Close)
	if m.control, err = control.Serve(socket, m.handlers(), m.log); err != nil {
		return nil, err
	}
	m.close = append(m.close, m.control.Close)
	if err := m.showMetrics(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("interrupted before the mount was made: %w", err)
	}
	c.Cache.answerAtOnce()
	options := c.kernelOptions()
	options.Ended = m.cancel
	m.point, err = fs.Mount(c.Dir, m.fs, options)
	if err != nil {
		return nil, err
	}
	if m.place, err = mounts.PlaceOf(c.Dir); err != nil {
		if c.Kernel.ControlPipe == nil {
			err = errors.Join(err, m.point.UnmountLazily())
		}
		return nil, err
	}
	m.resume()
	m.refreshes.work.Go(m.watchPresence)
	m.refreshes.work.Go(func() { m.account.Run(m.refreshes.ctx.Done(), m.fillAccount) })
	if c.Read.Refresh > 0 && (m.bucket != nil || m.store != nil) {
		m.refreshes.work.Go(func() { m.follow(c.Read.Refresh) })
	}
	return m, nil
}

// handlers are what the daemon can be asked.
func (m *Mount) handlers() control.Handlers {
	return control.Handlers{Stats: m.stats, SetFidelity: m.setFidelity, Current: m.current, View: m.view, Why: m.fs.Why, Explain: m.explain, Refresh: m.refresh, Pprof: m.pprof, Trace: m.trace.Take, Config: m.settings, Mount: m.config.Dir}
}

// openFS makes the file system, and tells what its views lack.
func (m *Mount) openFS(socket string, links []rootLink) (err error) {
	c := m.config
	views := UsualViews(m.registry)
	for _, spec := range c.Views.List {
		if _, err := m.registry.Parse(spec); err != nil {
			return fmt.Errorf("view to be listed: %w", err)
		}
		views = append(views, spec)
	}
	m.listed = Unique(views)
	wanted := m.listed
	for _, l := range links {
		wanted = append(wanted, l.to[0])
	}
	if m.gaps, err = FindGaps(m.server, m.registry, Unique(wanted)); err != nil {
		return err
	}
	m.listed = slices.DeleteFunc(m.listed, m.gaps.Lacks)
	m.fs, err = fs.New(fs.Options{
		Registry: m.registry, Server: m.server, Roles: c.Roles, Cache: c.Cache.Mode,
		Views: m.listed, Epochs: m.epochs, Ahead: m.ahead, Refuse: m.gaps.refuse, Seed: c.Views.Seed, Files: m.files(), Control: socket, Log: m.log,
		Freshness: m.fresh.kind, Watcher: m.fresh.watcher, Journal: c.Kernel.Journal, Expire: c.Kernel.Expire, Suspects: c.Kernel.Suspects, Account: m.account, Trace: &m.trace,
	})
	if err != nil {
		return err
	}
	moved, err := m.setLinks(links)
	if err != nil {
		return err
	}
	if text := m.gaps.Describe(moved...); text != "" {
		c.note(text)
	}
	switch {
	case m.packed == c.Source:
	case m.fresh.kind == fs.Watched: // as one expects
		m.log.Info("changes in the dataset are " + m.fresh.text)
	default:
		c.note("changes in the dataset are " + m.fresh.text)
	}
	return nil
}

// Done is closed when the last request is answered and the mount is gone.
func (m *Mount) Done() <-chan struct{} { return m.point.Done() }

// Stop takes the mount away, at once if it is busy, and closes what stands behind it
// unless requests are still under way a moment later.
func (m *Mount) Stop() error {
	if m.place.Unmount(false) != nil {
		if err := m.place.Unmount(true); err != nil {
			return err
		}
	}
	select {
	case <-m.Done():
		return m.closeAll()
	case <-time.After(supervise.UntilDone):
		m.abandon()
		return fmt.Errorf("%s: %w", m.config.Dir, mounts.ErrBusy)
	}
}

// closeAll releases what stands behind the mount. It comes after Done.
func (m *Mount) closeAll() error {
	m.cancel()
	m.logBad()
	var errs []error
	for _, c := range slices.Backward(m.close) {
		errs = append(errs, c())
	}
	m.close = nil
	return errors.Join(errs...)
}

// abandon does as much of closeAll as is safe while requests are under way. The rest is
// made to survive the end of the process.
func (m *Mount) abandon() { m.control.Close() }

// Attach mounts for daemons that other processes of this program are: the connection, and
// where it is permitted the file that says how much the kernel reads ahead. The user is
// whom they run as, nil for who this process runs as.
func Attach(c *Config, u *supervise.User, log *slog.Logger) (conn, readAhead *os.File, err error) {
	uid, gid := os.Geteuid(), os.Getegid()
	if u != nil {
		uid, gid = u.UID, u.GID
	}
	p, err := fs.Attach(c.Dir, uid, gid, c.kernelOptions(), log)
	if err != nil {
		return nil, nil, err
	}
	conn, readAhead = p.Files()
	return conn, readAhead, nil
}

// Supervise is the life of a daemon: it returns when the mount is gone, when open files do
// not let it go, and when the supervisor goes on with another daemon. Then the mount stays.
// A signal has the supervisor end the mount. Where that is gone, or was never there, a signal
// ends the mount patiently, and a second one at once.
func (m *Mount) Supervise(signals chan os.Signal) error {
	pipe := m.config.Kernel.ControlPipe
	lost := pipe.Lost()
	for {
		select {
		case <-m.Done():
			m.log.Info("unmounted", "mount", m.config.Dir)
			return m.closeAll()
		case <-pipe.Asked():
			m.log.Info("stopping: the supervisor goes on with another daemon")
			m.point.Leave()
			return m.closeAll()
		case <-lost:
			if m.config.Shared != "" {
				m.log.Error("the supervisor is gone, and with it the holders of this shared mount: whoever reads from it gets an error", "mount", m.config.Dir)
				return m.end()
			}
			m.log.Warn("the supervisor of this daemon is gone: if the daemon dies, readers may wait until the mount is unmounted by force; SIGTERM unmounts", "pid", os.Getpid())
			lost = nil
		case s := <-signals:
			if pipe.Ask() {
				m.log.Info("the supervisor is asked to end the mount", "signal", s.String())
				continue
			}
			m.log.Info("stopping", "signal", s.String())
			e := supervise.Ending{Dir: m.config.Dir, Place: m.place, Done: m.Done(), Log: m.log}
			if e.Run(signals) {
				return m.closeAll()
			}
			return m.end()
		}
	}
}

// end ends the connection of the mount while files are open. Requests may be under way: what
// stands behind them is not closed while they use it.
func (m *Mount) end() error {
	m.abandon()
	abort, err := m.place.Abort()
	return errors.Join(err, abort.End())
}

// openGPU returns what decodes L3 files, nil for the processor alone. It is closed
// after what uses it.
func (m *Mount) openGPU() (l3.Backend, error) {
	c := m.config
	if c.GPU.Off {
		return nil, nil
	}
	o := l3gpu.StartOptions{
		Options: l3gpu.Options{Device: c.GPU.Device, Log: m.log},
		Force:   c.GPU.Force,
	}
	// As many as are asked for at once.
	o.Compare.Pictures = cmp.Or(c.Workers, runtime.GOMAXPROCS(0))
	gpu, err := l3gpu.Start(o)
	if err != nil {
		return nil, fmt.Errorf("--gpu %d: %w; --gpu off does without", c.GPU.Device, err)
	}
	m.gpu = gpu
	m.close = append(m.close, gpu.Close)
	return gpu, nil
}

// gpuFiles are those of .pipefs/gpu that programs which train use.
func (m *Mount) gpuFiles(files map[string]func() ([]byte, error)) {
	modules, _ := python.Modules.ReadDir(".") // it is embedded
	for _, f := range modules {
		files["gpu/"+f.Name()] = func() ([]byte, error) { return python.Modules.ReadFile(f.Name()) }
	}
}
