package kernel

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

var update = flag.Bool("update", false, "write what CUDA and Python have of abi.go")

// TestABI wants CUDA and Python to have the same as abi.go.
func TestABI(t *testing.T) {
	for path, want := range map[string]string{"records.cuh": cudaABI(), "../../python/pipefs_gpu_abi.py": pythonABI()} {
		if *update {
			testenv.Must(t, os.WriteFile(path, []byte(want), 0o644))
		}
		got, err := os.ReadFile(path)
		testenv.Must(t, err)
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-abi.go +the file); go generate writes it:\n%s", path, diff)
		}
	}
}

// snake is a name of Go as C has it.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func cudaABI() string {
	var b strings.Builder
	b.WriteString("// Written by go generate from abi.go, which says what the fields mean.\n\n")
	for _, record := range []any{PictureRecord{}, PatchRecord{}} {
		typ := reflect.TypeOf(record)
		name := strings.TrimSuffix(typ.Name(), "Record")
		fmt.Fprintf(&b, "struct %s {\n", name)
		for i := range typ.NumField() {
			f := typ.Field(i)
			element, array := f.Type, ""
			if f.Type.Kind() == reflect.Array {
				element, array = f.Type.Elem(), fmt.Sprintf("[%d]", f.Type.Len())
			}
			c := map[reflect.Kind]string{reflect.Uint8: "u8", reflect.Uint32: "u32", reflect.Uint64: "u64", reflect.Int64: "i64", reflect.Float32: "float"}
			fmt.Fprintf(&b, "  %s %s%s;  // %d\n", c[element.Kind()], snake(f.Name), array, f.Offset)
		}
		fmt.Fprintf(&b, "};\nstatic_assert(sizeof(%s) == %d, \"abi.go has another size\");\n\n", name, typ.Size())
	}
	fmt.Fprintf(&b, "enum Output { AS_STORED = %d, FLOAT32 = %d, FLOAT16 = %d };\n\n", AsStored, Float32, Float16)
	b.WriteString("// Why a patch was refused.\nenum Refusal {\n")
	for i, r := range refusals[1:] {
		fmt.Fprintf(&b, "  %s = %d,  // %s\n", r.name, i+1, r.says)
	}
	b.WriteString("};\n\n")
	fmt.Fprintf(&b, "#define LANES %d\n// Warps of a block, each of which decodes a patch.\n#define WARPS %d\n", lanes, warps)
	fmt.Fprintf(&b, "// The rows of patches up to this width stay in shared memory for the band below.\n#define NARROW %d\n", narrow)
	return b.String()
}

func pythonABI() string {
	var b strings.Builder
	b.WriteString("\"\"\"What the kernels of pipefs_gpu want. Written by go generate from l3gpu/kernel/abi.go, which says what it means.\"\"\"\n\nimport struct\n\n")
	for _, c := range []struct {
		name    string
		value   int
		comment string
	}{
		{"ALIGNMENT", Alignment, "of files and tables"},
		{"PADDING", Padding, "zeros behind each file"},
		{"WARPS", warps, "of a block; each decodes a patch"},
		{"THREADS", Threads, "of a block"},
		{"BAND", lanes, "rows"},
		{"NARROW", narrow, "wider patches of version 2 need scratch rows"},
		{"MAX_FILE", maxFile, "bytes"},
		{"MAX_PATCH", maxPatch, "bytes"},
		{"MAX_PATCH_WIDTH", maxWidth, "of version 2"},
		{"PATCH_LEN", PatchLen, "of a patch's record"},
		{"GOOD", 1<<(8*StatusLen) - 1, "the status of a picture that was decoded"},
	} {
		fmt.Fprintf(&b, "%s = %d  # %s\n", c.name, c.value, c.comment)
	}
	format := "<"
	typ := reflect.TypeOf(PictureRecord{})
	for i := range typ.NumField() {
		element, n := typ.Field(i).Type, 1
		if element.Kind() == reflect.Array {
			element, n = element.Elem(), element.Len()
		}
		c := map[reflect.Kind]string{reflect.Uint8: "B", reflect.Uint32: "I", reflect.Uint64: "Q", reflect.Int64: "q", reflect.Float32: "f"}
		format += strings.Repeat(c[element.Kind()], n)
	}
	fmt.Fprintf(&b, "PICTURE = struct.Struct(\"%s\")  # a picture's record\n", format)
	fmt.Fprintf(&b, "OUTPUTS = {\"float32\": %d, \"float16\": %d}  # all else is as stored\n", Float32, Float16)
	fmt.Fprintf(&b, "ENTRIES = (\"%s\")\n", strings.Join(entries[:], `", "`))
	b.WriteString("REFUSALS = {  # the lower four bits of a status: the kind of error, and what it says\n")
	for i, r := range refusals[1:] {
		kind := "Damaged"
		switch {
		case errors.Is(r.kind, transcode.ErrTruncated):
			kind = "Truncated"
		case errors.Is(r.kind, transcode.ErrInternal):
			kind = "PictureError"
		}
		fmt.Fprintf(&b, "    %d: (\"%s\", \"%s\"),\n", i+1, kind, r.says)
	}
	b.WriteString("}\n")
	return b.String()
}

// TestSources wants the PTX to be what was made of the sources, and all of it.
func TestSources(t *testing.T) {
	sources, err := filepath.Glob("*.cuh")
	testenv.Must(t, err)
	slices.Sort(sources)
	sum := sha256.New()
	for _, path := range append([]string{"l3.cu"}, sources...) {
		b, err := os.ReadFile(path)
		testenv.Must(t, err)
		fmt.Fprintf(sum, "%s %d\n", path, len(b))
		sum.Write(b)
	}
	for _, build := range builds {
		ptx, err := build.text()
		testenv.Must(t, err)
		lines := bytes.SplitAfterN(ptx, []byte("\n"), 6)
		if got := string(lines[1]); got != fmt.Sprintf("// sources: sha256 %x\n", sum.Sum(nil)) {
			t.Errorf("l3.%d.ptx.gz is of other sources, %x: run scripts/ptx", build.capability, sum.Sum(nil))
		}
		if got := string(lines[2]); got != fmt.Sprintf("// body: sha256 %x\n", sha256.Sum256(lines[5])) {
			t.Errorf("l3.%d.ptx.gz has been changed: %s", build.capability, got)
		}
		// What drivers of 2023 read.
		for _, s := range []string{"\n.version 8.2\n", fmt.Sprintf("\n.target sm_%d\n", build.capability)} {
			if !bytes.Contains(ptx, []byte(s)) {
				t.Errorf("no %q in l3.%d.ptx.gz", s, build.capability)
			}
		}
		for _, name := range entries {
			if !bytes.Contains(ptx, []byte(".entry "+name+"(")) {
				t.Errorf("no entry %s", name)
			}
		}
	}
}

// TestPTX wants each GPU to get a build that it can execute.
func TestPTX(t *testing.T) {
	for major, capability := range map[int]int{7: 75, 8: 75, 9: 90, 12: 90} {
		if got, err := PTX(major); err != nil || !bytes.Contains(got, fmt.Appendf(nil, "\n.target sm_%d\n", capability)) {
			t.Errorf("%d.x: not for sm_%d, %v", major, capability, err)
		}
	}
}

// TestCompiled compiles the sources again and wants the same text; compressed, it may differ.
func TestCompiled(t *testing.T) {
	testenv.Slow(t)
	if testenv.Race {
		t.Skip("skipped: it takes too long under the race detector")
	}
	out := t.TempDir()
	said, err := exec.CommandContext(t.Context(), "../../scripts/ptx", out).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 3 || errors.Is(err, exec.ErrNotFound) {
		t.Skipf("skipped: %s", strings.TrimSpace(string(said)))
	}
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, build := range builds {
		packed, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("l3.%d.ptx.gz", build.capability)))
		testenv.Must(t, err)
		got, err := unpack(packed)
		testenv.Must(t, err)
		if want, err := build.text(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v; scripts/ptx makes another l3.%d.ptx.gz", err, build.capability)
		}
	}
}
