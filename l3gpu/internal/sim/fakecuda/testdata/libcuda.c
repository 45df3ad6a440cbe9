// A libcuda for tests: it has the functions that the binding asks for, with the
// types of cuda.h, on memory of the host. It is strict where the real one is: every
// call wants a context on its own thread, pointers have to be within what was
// allocated, and what a stream is given happens when somebody waits for it.
//
// Memory of the device is a memfd each, so that another process can open it. Kernels
// other than `add` are done by whoever listens at the socket that PIPEFS_STUB_MACHINE
// names: he is sent the launch and the list of all such memory.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef int32_t R;
enum { OK = 0, INVALID = 1, NOMEM = 2, NODEV = 101, NOCTX = 201, PTX = 218, NOTFOUND = 500, LAUNCH = 719 };

#define CTX ((void *)0x1000)
static __thread void *current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int live, retained, lost;
static char failing[64];
static int failing_code;

struct op { struct op *next; int kind; uint64_t dst, src; size_t n; uint64_t params[8]; uint32_t grid; char name[16]; };
struct stream { struct op *first, **last; };
struct event { struct stream *s; double at; };
// fd is that of the memory of a device, -1 of the host's.
struct alloc { struct alloc *next; uint64_t p; size_t n; int fd; } *allocs;
static double now = 1;

// What tests set and read.
int stub_live(void) { return live; }
int stub_retained(void) { return retained; }
void stub_fail(const char *call, int code) { snprintf(failing, sizeof failing, "%s", call); failing_code = code; lost = 0; }

static R enter(const char *call, int context) {
	if (lost) return LAUNCH;
	if (!strcmp(call, failing)) { if (failing_code >= 700 && failing_code < 720) lost = 1; return failing_code; }
	return context && current != CTX ? NOCTX : OK;
}
#define ENTER(context) do { R r_ = enter(__func__, context); if (r_) return r_; } while (0)

static void *take(size_t n) {
	struct alloc *a = malloc(sizeof *a);
	pthread_mutex_lock(&lock);
	a->p = (uint64_t)malloc(n); a->n = n; a->fd = -1; a->next = allocs; allocs = a; live++;
	pthread_mutex_unlock(&lock);
	memset((void *)a->p, 0xa5, n);
	return (void *)a->p;
}
static void *take_shared(size_t n) {
	struct alloc *a = malloc(sizeof *a);
	a->fd = memfd_create("stub-gpu", MFD_CLOEXEC);
	if (a->fd < 0 || ftruncate(a->fd, n)) abort();
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (p == MAP_FAILED) abort();
	a->p = (uint64_t)p; a->n = n;
	memset(p, 0xa5, n);
	pthread_mutex_lock(&lock);
	a->next = allocs; allocs = a; live++;
	pthread_mutex_unlock(&lock);
	return (void *)a->p;
}
static R drop(uint64_t p) {
	R r = INVALID;
	pthread_mutex_lock(&lock);
	for (struct alloc **a = &allocs; *a; a = &(*a)->next)
		if ((*a)->p == p) {
			struct alloc *x = *a;
			*a = x->next; live--;
			r = OK;
			if (x->fd < 0) free((void *)x->p);
			else { munmap((void *)p, x->n); close(x->fd); }
			free(x);
			break;
		}
	pthread_mutex_unlock(&lock);
	return r;
}
static int within(uint64_t p, size_t n) {
	int ok = 0;
	pthread_mutex_lock(&lock);
	for (struct alloc *a = allocs; a; a = a->next) ok |= p >= a->p && p + n <= a->p + a->n;
	pthread_mutex_unlock(&lock);
	return ok;
}

R cuInit(uint32_t flags) { ENTER(0); return flags ? INVALID : OK; }
R cuDriverGetVersion(int32_t *v) { *v = 12040; return OK; }
R cuGetErrorName(R e, const char **s) { *s = e == NOMEM ? "CUDA_ERROR_OUT_OF_MEMORY" : e == LAUNCH ? "CUDA_ERROR_LAUNCH_FAILED" : e == PTX ? "CUDA_ERROR_INVALID_PTX" : NULL; return *s ? OK : INVALID; }
R cuGetErrorString(R e, const char **s) { *s = e == NOMEM ? "out of memory" : e == PTX ? "a PTX JIT compilation failed" : NULL; return *s ? OK : INVALID; }
R cuDeviceGetCount(int32_t *n) { ENTER(0); *n = 1; return OK; }
R cuDeviceGet(int32_t *d, int32_t i) { ENTER(0); *d = 7; return i == 0 ? OK : NODEV; }
R cuDeviceGetName(char *s, int32_t n, int32_t d) { ENTER(0); snprintf(s, n, "Stub %d", d); return OK; }
R cuDeviceGetAttribute(int32_t *v, int32_t a, int32_t d) { ENTER(0); *v = a == 75 ? 8 : a == 76 ? 6 : -1; return d == 7 ? OK : NODEV; }
R cuDevicePrimaryCtxRetain(void **c, int32_t d) { ENTER(0); *c = CTX; retained++; return d == 7 ? OK : NODEV; }
R cuDevicePrimaryCtxRelease_v2(int32_t d) { retained--; return d == 7 ? OK : NODEV; }
R cuCtxSetCurrent(void *c) { current = c; return OK; }
R cuCtxGetStreamPriorityRange(int32_t *least, int32_t *greatest) { ENTER(1); if (least) *least = 0; *greatest = -5; return OK; }

R cuModuleLoadDataEx(void **m, const char *image, uint32_t n, int32_t *options, void **values) {
	ENTER(1);
	if (n != 2 || options[0] != 5 || options[1] != 6) return INVALID;
	const char *begin = image;
	while (!strncmp(begin, "//", 2) || *begin == '\n') begin = strchr(begin, '\n') + 1;
	if (strncmp(begin, ".version", 8)) {
		snprintf(values[0], (size_t)values[1], "ptxas application ptx input, line 1; fatal : no version");
		return PTX;
	}
	live++;
	*m = strdup(image);
	return OK;
}
R cuModuleUnload(void *m) { ENTER(1); free(m); live--; return OK; }
R cuModuleGetFunction(void **f, char *m, const char *name) {
	ENTER(1);
	char entry[64];
	int n = snprintf(entry, sizeof entry, ".entry %s", name);
	for (char *at = m; (at = strstr(at, entry)); at++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_", at[n]) || !at[n]) { *f = at + 7; return OK; }
	return NOTFOUND;
}

R cuMemAlloc_v2(uint64_t *p, size_t n) { ENTER(1); if (n > (size_t)1 << 32) return NOMEM; *p = (uint64_t)take_shared(n); return OK; }
R cuMemFree_v2(uint64_t p) { ENTER(1); return drop(p); }
R cuMemGetInfo_v2(size_t *f, size_t *t) { ENTER(1); *f = 11; *t = 12; return OK; }
R cuMemHostAlloc(void **p, size_t n, uint32_t flags) { ENTER(1); if (flags != 1) return INVALID; *p = take(n); return OK; }
R cuMemFreeHost(void *p) { ENTER(1); return drop((uint64_t)p); }

// Has somebody else run a kernel, under the lock.
static void elsewhere(struct op *o) {
	char text[8192], answer = 0;
	int n = snprintf(text, sizeof text, "%d %s", getpid(), o->name);
	for (int i = 0; i < 8; i++) n += snprintf(text + n, sizeof text - n, " %llu", (unsigned long long)o->params[i]);
	for (struct alloc *a = allocs; a; a = a->next)
		if (a->fd >= 0) n += snprintf(text + n, sizeof text - n, " %llu:%zu:%d", (unsigned long long)a->p, a->n, a->fd);
	n += snprintf(text + n, sizeof text - n, "\n");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("PIPEFS_STUB_MACHINE");
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(to.sun_path, sizeof to.sun_path, "%s", path ? path : "");
	if (n >= (int)sizeof text || s < 0 || connect(s, (void *)&to, sizeof to) || write(s, text, n) != n || read(s, &answer, 1) != 1 || answer != '+') {
		fprintf(stderr, "stub: %s was not run by %s: %s\n", o->name, to.sun_path, strerror(errno));
		lost = 1;
	}
	close(s);
}

static void queue(struct stream *s, struct op o) {
	struct op *x = malloc(sizeof *x);
	*x = o; x->next = NULL;
	pthread_mutex_lock(&lock);
	*s->last = x; s->last = &x->next;
	pthread_mutex_unlock(&lock);
}
static void drain(struct stream *s) {
	pthread_mutex_lock(&lock);
	for (struct op *o = s->first; o;) {
		struct op *next = o->next;
		now += 1;
		if (o->kind == 0) memcpy((void *)o->dst, (void *)o->src, o->n);
		if (o->kind == 2) // add: u64 p, u32 n, u32 value
			for (uint32_t i = 0; i < (uint32_t)o->params[1]; i++) ((uint8_t *)o->params[0])[i] += (o->params[1] >> 32) * o->grid;
		if (o->kind == 4) elsewhere(o);
		if (o->kind == 3) *(double *)o->dst = now;
		free(o);
		o = next;
	}
	s->first = NULL; s->last = &s->first;
	pthread_mutex_unlock(&lock);
}
R cuStreamCreateWithPriority(struct stream **s, uint32_t flags, int32_t priority) {
	ENTER(1);
	if (flags != 1 || priority < -5 || priority > 0) return INVALID;
	*s = calloc(1, sizeof **s); (*s)->last = &(*s)->first; live++;
	return OK;
}
R cuStreamDestroy_v2(struct stream *s) { ENTER(1); drain(s); free(s); live--; return OK; }
R cuStreamSynchronize(struct stream *s) { ENTER(1); drain(s); return lost ? LAUNCH : OK; }
R cuMemcpyHtoDAsync_v2(uint64_t d, void *h, size_t n, struct stream *s) {
	ENTER(1);
	if (!within(d, n) || !within((uint64_t)h, n)) return INVALID;
	queue(s, (struct op){.kind = 0, .dst = d, .src = (uint64_t)h, .n = n});
	return OK;
}
R cuMemcpyDtoHAsync_v2(void *h, uint64_t d, size_t n, struct stream *s) {
	ENTER(1);
	if (!within(d, n) || !within((uint64_t)h, n)) return INVALID;
	queue(s, (struct op){.kind = 0, .dst = (uint64_t)h, .src = d, .n = n});
	return OK;
}
R cuEventCreate(struct event **e, uint32_t flags) { ENTER(1); if (flags != 1) return INVALID; *e = calloc(1, sizeof **e); live++; return OK; }
R cuEventRecord(struct event *e, struct stream *s) { ENTER(1); e->s = s; queue(s, (struct op){.kind = 3, .dst = (uint64_t)&e->at}); return OK; }
R cuEventSynchronize(struct event *e) { ENTER(1); if (e->s) drain(e->s); return lost ? LAUNCH : OK; }
R cuEventElapsedTime(float *ms, struct event *a, struct event *b) { ENTER(1); *ms = (float)(b->at - a->at) / 4; return OK; }
R cuEventDestroy_v2(struct event *e) { ENTER(1); free(e); live--; return OK; }

R cuLaunchKernel(char *f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared, struct stream *s, void **params, void **extra) {
	ENTER(1);
	struct op o = {.kind = 2, .grid = gx * gy * gz * bx * by * bz + shared};
	if (params || !extra || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4]) return INVALID;
	size_t n = *(size_t *)extra[3];
	if (n > sizeof o.params) return INVALID;
	if (strncmp(f, "add", 3)) {
		o.kind = 4;
		snprintf(o.name, sizeof o.name, "%.*s", (int)strspn(f, "l3vw_0123456789"), f);
	}
	memcpy(o.params, extra[1], n);
	queue(s, o);
	return OK;
}
