package resp

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"
)

// mostTogether is how many files of this package may need each other. To read one of them is to
// read all.
const mostTogether = 6

// TestFilesThatNeedEachOther: there are few. A file needs the files in which the functions,
// methods, types, constants and variables that it names are declared, and what these files need.
func TestFilesThatNeedEachOther(t *testing.T) {
	needs := fileNeeds(t)
	for _, edge := range [][2]string{ // known ones: a test that found none would pass
		{"pump.go", "wait.go"},         // p.prepare()
		{"wait.go", "uplink.go"},       // s.up.judgeAgain()
		{"begin.go", "dial.go"},        // s.srv.down.back(...)
		{"uplink.go", "lifecycle.go"},  // func() bool { return s.life.now() == stateClosed }
		{"server.go", "inbound.go"},    // sess.progress.slow(...)
		{"inbound.go", "readahead.go"}, // in.ahead.readLast()
	} {
		if !needs[edge[0]][edge[1]] {
			t.Errorf("%s does not seem to need %s", edge[0], edge[1])
		}
	}
	if files := inCircle(needs); len(files) > mostTogether {
		t.Errorf("%d files need each other, more than %d: %s", len(files), mostTogether, strings.Join(files, ", "))
	}
}

// fileNeeds returns which files of this package on Linux, tests aside, need which directly.
func fileNeeds(t *testing.T) map[string]map[string]bool {
	t.Helper()
	context := build.Default
	context.GOOS = "linux"
	folder, err := context.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range folder.GoFiles {
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: emptyPackages{}, Error: func(error) {}} // errors: names of other packages
	config.Check("lockproxy/resp", set, files, &info)
	file := func(at token.Pos) string { return set.Position(at).Filename }
	needs := map[string]map[string]bool{}
	for _, name := range folder.GoFiles {
		needs[name] = map[string]bool{}
	}
	for name, object := range info.Uses {
		if declared(object) && file(object.Pos()) != file(name.Pos()) {
			needs[file(name.Pos())][file(object.Pos())] = true
		}
	}
	return needs
}

// declared reports whether a file of this package declares object: a function, a method, a type, a
// constant or a variable outside functions.
func declared(object types.Object) bool {
	if !object.Pos().IsValid() || object.Pkg() == nil {
		return false
	}
	_, function := object.(*types.Func)
	return function || object.Parent() == object.Pkg().Scope()
}

// emptyPackages imports packages without any name. Uses inside this package are found
// nevertheless.
type emptyPackages struct{}

func (emptyPackages) Import(path string) (*types.Package, error) {
	imported := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	imported.MarkComplete()
	return imported, nil
}

// inCircle returns the most files that need each other, directly or through others.
func inCircle(needs map[string]map[string]bool) []string {
	reached := map[string]map[string]bool{}
	for from := range needs {
		reached[from] = map[string]bool{from: true}
		for open := []string{from}; len(open) > 0; {
			next := open[0]
			open = open[1:]
			for to := range needs[next] {
				if !reached[from][to] {
					reached[from][to] = true
					open = append(open, to)
				}
			}
		}
	}
	var largest []string
	for from := range needs {
		together := slices.Sorted(maps.Keys(reached[from]))
		together = slices.DeleteFunc(together, func(to string) bool { return !reached[to][from] })
		if len(together) > len(largest) {
			largest = together
		}
	}
	return largest
}
