package doctor

import (
	"errors"

	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/transcode"
)

// jpeg says how JPEG files are decoded.
func (m *Machine) jpeg() []Finding {
	const about = "JPEG"
	err := m.Turbo()
	switch {
	case m.Vectorised && err == nil:
		return []Finding{ok(about, "pipefs decodes with assembly for this processor; libturbojpeg is there and gives the same pixels, but is not needed")}
	case m.Vectorised:
		return []Finding{ok(about, "pipefs decodes with assembly for this processor; libturbojpeg is not needed")}
	case err == nil:
		return []Finding{ok(about, "libturbojpeg decodes, because pipefs has no assembly for this processor (on x86 it takes AVX2); it gave the pixels of pipefs on trial pictures")}
	case errors.Is(err, transcode.ErrUnsupported):
		return []Finding{note(about, "install libturbojpeg of libjpeg-turbo 2.1", "%v, so pipefs decodes by itself, which takes several times as long without assembly for this processor (on x86 it takes AVX2)", err)}
	}
	return []Finding{note(about, "apt install libturbojpeg0, or dnf install turbojpeg", "pipefs has no assembly for this processor (on x86 it takes AVX2), and libturbojpeg was not found (%v): pipefs decodes by itself, which takes several times as long", err)}
}

// gpu says whether L3 files can be decoded on one.
func (m *Machine) gpu() []Finding {
	const about = "GPU"
	name, err := m.GPU()
	switch {
	case err == nil:
		return []Finding{ok(about, "%s: L3 files are decoded there where that is faster", name)}
	case errors.Is(err, l3gpu.ErrNoDriver) && !m.exists("/dev/nvidiactl") && !m.exists("/proc/driver/nvidia/version"):
		return []Finding{ok(about, "none; only views of L3 files could use one")}
	case errors.Is(err, l3gpu.ErrNoDriver):
		return []Finding{note(about, "in a container give it the driver's libraries (docker run --gpus all); else install the driver's libcuda.so.1", "there is an NVIDIA driver in the kernel, but its library cannot be opened (%v): L3 files are decoded by the processor", err)}
	}
	return []Finding{note(about, "see whether nvidia-smi works here, and what CUDA_VISIBLE_DEVICES says", "%v: L3 files are decoded by the processor", err)}
}
