package doctor

import (
	"errors"

	"github.com/pipefs/pipefs/l3gpu"
)

// jpeg says how JPEG files are decoded.
func (m *Machine) jpeg() []Finding {
	const about = "JPEG"
	if m.Vectorised {
		return []Finding{ok(about, "decoded with assembly for this processor")}
	}
	return []Finding{note(about, "use a processor with AVX2 where decoding is the bottleneck, or store decoded views: pipefs materialize", "pipefs has no assembly for this processor: decoding takes several times as long")}
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
