package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

var (
	mutants  = flag.Int("mutants", 100, "how many mutants TestMutants tries")
	packages = flag.String("packages", "store internal/serve internal/epoch internal/source", "the packages that it breaks")
	names    = flag.String("files", "", "a regular expression: only files whose base name it matches")
)

// mutant is one fault in the code: bytes of a file that others replace.
type mutant struct {
	pkg, file, with string
	line, column    int
	from, to        int // offsets in the file
	old             string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s/%s:%d: `%s` -> `%s`", m.pkg, filepath.Base(m.file), m.line, strings.Join(strings.Fields(m.old), " "), m.with)
}

var swaps = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO,
}

// mutantsOf finds the places of a file where a fault can be made. Some faults do not compile. Left out is what changes nothing
// that a test of behavior can see:
//   - texts for people: calls of loggers, fmt.Errorf and errors.New, methods Error and String;
//   - numbers that a return gives beside an error;
//   - capacities: of make, Grow, lru.New and buffers of bufio, and how much runs at once (SetLimit, GOMAXPROCS);
//   - statements that give memory to a pool, or a result to a cache for speed: Put with one argument;
//   - functions that have to do with a file that takes advice about reads to come (vfs.Advised).
func mutantsOf(pkg, file string, text []byte) (all []mutant, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(from, to token.Pos, with string) {
		at := set.Position(from)
		old := string(text[at.Offset:set.Position(to).Offset])
		all = append(all, mutant{pkg: pkg, file: file, line: at.Line, column: at.Column, from: at.Offset, to: at.Offset + len(old), old: old, with: with})
	}
	left := map[ast.Node]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil || left[n] {
			return false
		}
		switch n := n.(type) {
		case *ast.FuncDecl:
			return n.Name.Name != "Error" && n.Name.Name != "String" && !advises(n)
		case *ast.CallExpr:
			if forPeople(n) {
				return false
			}
			for _, capacity := range capacitiesOf(n) {
				left[capacity] = true
			}
		case *ast.GenDecl:
			return n.Tok == token.VAR // types and names of constants are not code
		case *ast.BinaryExpr:
			if with, ok := swaps[n.Op]; ok {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), with.String())
			}
		case *ast.IfStmt:
			for _, number := range besideError(n) {
				left[number] = true
			}
			if _, simple := n.Cond.(*ast.BinaryExpr); !simple {
				add(n.Cond.Pos(), n.Cond.End(), "!("+string(text[set.Position(n.Cond.Pos()).Offset:set.Position(n.Cond.End()).Offset])+")")
			}
		case *ast.ReturnStmt:
			if k := len(n.Results) - 1; k >= 0 {
				if last := n.Results[k]; isNamed(last, "err") {
					add(last.Pos(), last.End(), "nil")
				}
				if call, ok := n.Results[k].(*ast.CallExpr); ok && forPeople(call) {
					return false
				}
			}
		case *ast.BasicLit:
			if v, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
				add(n.Pos(), n.End(), strconv.Itoa(v+1))
			}
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); ok && (forPeople(call) || forSpeed(call)) {
				return false
			}
			add(n.Pos(), n.End(), "")
		case *ast.DeferStmt:
			if forSpeed(n.Call) {
				return false
			}
			add(n.Pos(), n.End(), "")
		case *ast.BranchStmt:
			if n.Tok == token.CONTINUE && n.Label == nil {
				add(n.Pos(), n.End(), "break")
			}
		}
		return true
	})
	return all, nil
}

// calls returns the name of what a call calls, and of the package or value that this is of.
func calls(call *ast.CallExpr) (of, name string) {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return "", f.Name
	case *ast.SelectorExpr:
		switch x := f.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
		return of, f.Sel.Name
	}
	return "", ""
}

func forPeople(call *ast.CallExpr) bool {
	of, name := calls(call)
	switch name {
	case "Debug", "Info", "Warn", "Error":
		return strings.EqualFold(of, "log") || of == "Logger"
	}
	return of == "fmt" && name == "Errorf" || of == "errors" && name == "New"
}

// forSpeed reports whether a call only says how much runs at once, or puts something into a pool or a cache.
func forSpeed(call *ast.CallExpr) bool {
	_, name := calls(call)
	return name == "SetLimit" || strings.EqualFold(name, "put") && len(call.Args) == 1
}

// capacitiesOf returns the arguments of a call that say what is going to be needed, or kept.
func capacitiesOf(call *ast.CallExpr) []ast.Expr {
	of, name := calls(call)
	if generic, ok := call.Fun.(*ast.IndexListExpr); ok { // lru.New[K, V](…)
		of, name = calls(&ast.CallExpr{Fun: generic.X})
	}
	switch k := len(call.Args) - 1; {
	case of == "lru" || name == "GOMAXPROCS":
		return call.Args
	case name == "Grow", name == "make" && k == 2, of == "bufio" && k == 1:
		return call.Args[k:]
	case name == "make" && k == 1:
		switch call.Args[0].(type) {
		case *ast.MapType, *ast.ChanType:
			return call.Args[k:]
		}
	}
	return nil
}

// besideError returns the numbers that are returned if err != nil.
func besideError(n *ast.IfStmt) (numbers []ast.Node) {
	cond, ok := n.Cond.(*ast.BinaryExpr)
	if !ok || cond.Op != token.NEQ || !isNamed(cond.X, "err") || !isNamed(cond.Y, "nil") {
		return nil
	}
	for _, s := range n.Body.List {
		if r, ok := s.(*ast.ReturnStmt); ok {
			for _, v := range r.Results {
				switch v.(type) {
				case *ast.BasicLit, *ast.UnaryExpr:
					numbers = append(numbers, v)
				}
			}
		}
	}
	return numbers
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func advises(f *ast.FuncDecl) (yes bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		yes = yes || ok && id.Name == "Advised"
		return !yes
	})
	return yes
}

// testedBy are packages whose tests test another one, too.
var testedBy = map[string]string{
	"store":           "./internal/prepare/... ./internal/packing",
	"internal/serve":  "./fs ./internal/epoch",
	"internal/epoch":  "./fs",
	"internal/source": "./internal/source/... ./internal/serve",
}

// goTest runs tests of packages.
func goTest(packages string, limit time.Duration, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"test", "-vet=off", "-failfast", "-timeout", limit.String()}, args...), strings.Fields(packages)...)...)
	cmd.Dir, cmd.WaitDelay = "../..", time.Second
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "PIPEFS_SOAK=") })
	// A mutant may leave processes behind, which would slow the next ones.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	b, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there may be none
	}
	return string(b), err
}

// block is a piece of code that tests came to so many times.
type block struct{ fromLine, fromColumn, toLine, toColumn, statements, count int }

// holds reports whether a place is in the block.
func (b block) holds(line, column int) bool {
	begins := b.fromLine < line || b.fromLine == line && b.fromColumn <= column
	return begins && (line < b.toLine || line == b.toLine && column < b.toColumn)
}

// coverage returns the blocks of each file of a package, by its base name.
func coverage(t *testing.T, pkg string, limit time.Duration) map[string][]block {
	name := filepath.Join(t.TempDir(), "cover")
	if out, err := goTest("./"+pkg+" "+testedBy[pkg], limit, "-short", "-coverprofile", name, "-coverpkg", "./"+pkg); err != nil {
		t.Fatalf("%s fails without a mutant: %v\n%s", pkg, err, out)
	}
	text, err := os.ReadFile(name)
	testenv.Must(t, err)
	blocks := map[string][]block{}
	for line := range strings.Lines(string(text)) {
		file, rest, _ := strings.Cut(line, ":")
		var b block
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.fromLine, &b.fromColumn, &b.toLine, &b.toColumn, &b.statements, &b.count); err == nil {
			blocks[filepath.Base(file)] = append(blocks[filepath.Base(file)], b)
		}
	}
	return blocks
}

// TestMutants breaks the code in one place at a time, by an overlay of the compiler, and counts the mutants that
// neither the package's own tests notice, first the short ones, nor the short tests of the packages in testedBy. It prints these.
func TestMutants(t *testing.T) {
	if !testenv.Soak() {
		t.Skip("it takes minutes: make soak ONLY=mutants")
	}
	const limit = 5 * time.Minute
	r := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	only, err := regexp.Compile(*names)
	testenv.Must(t, err)
	var all []mutant
	blocks := map[string]map[string][]block{}
	slowest := map[string]time.Duration{}
	for _, pkg := range strings.Fields(*packages) {
		began := time.Now()
		blocks[pkg] = coverage(t, pkg, limit)
		slowest[pkg] = min(limit, 10*time.Second+3*time.Since(began))
		files, err := filepath.Glob("../../" + pkg + "/*.go")
		testenv.Must(t, err)
		for _, file := range files {
			if blocks[pkg][filepath.Base(file)] == nil || !only.MatchString(filepath.Base(file)) { // a test, of another system, or not asked for
				continue
			}
			file, err = filepath.Abs(file)
			testenv.Must(t, err)
			text, err := os.ReadFile(file)
			testenv.Must(t, err)
			found, err := mutantsOf(pkg, file, text)
			testenv.Must(t, err)
			all = append(all, found...)
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tried, survived := 0, 0
	for _, m := range all {
		if tried == *mutants {
			break
		}
		how := "no test comes here"
		// Each package whose tests ran has a line for a block. What a case compares is in no block, and runs in most tests.
		in := slices.DeleteFunc(slices.Clone(blocks[m.pkg][filepath.Base(m.file)]), func(b block) bool { return !b.holds(m.line, m.column) })
		if len(in) == 0 || slices.ContainsFunc(in, func(b block) bool { return b.count > 0 }) {
			how = "survived"
		}
		if killed, compiles := m.try(t, slowest[m.pkg], how == "survived"); !compiles {
			continue
		} else if tried++; !killed {
			survived++
			fmt.Printf("mutant: %s (%s)\n", m, how)
		}
	}
	testenv.Proved(t, "mutants", tried, 100*float64(survived)/float64(max(tried, 1)))
}

// try compiles a mutant, and runs the tests.
func (m mutant) try(t *testing.T, limit time.Duration, run bool) (killed, compiles bool) {
	text, err := os.ReadFile(m.file)
	testenv.Must(t, err)
	dir := t.TempDir()
	with, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay")
	testenv.Must(t, os.WriteFile(with, slices.Concat(text[:m.from], []byte(m.with), text[m.to:]), 0o644))
	list, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: with}})
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(overlay, list, 0o644))
	tests := [][]string{{"./" + m.pkg, "-short"}, {testedBy[m.pkg], "-short"}, {"./" + m.pkg}}
	if !run {
		tests = [][]string{{"./" + m.pkg, "-run", "^$"}}
	}
	for i, which := range tests {
		if i == 2 { // all tests of the package take longer, and what does not end was noticed before
			limit = 10 * time.Minute
		}
		out, err := goTest(which[0], limit, append(which[1:], "-overlay", overlay)...)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, exec.ErrWaitDelay) {
			t.Fatal(err)
		}
		if err != nil && (i < 2 || !strings.Contains(out, "panic: test timed out")) {
			return true, !strings.Contains(out, "[build failed]")
		}
	}
	return false, true
}
