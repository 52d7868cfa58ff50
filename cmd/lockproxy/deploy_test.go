package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/conf"
)

// The files in deploy name settings and subcommands, which must exist. deploy/check tests their
// syntax.

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDeploySettingsAreValid(t *testing.T) {
	var config strings.Builder
	for document := range strings.SplitSeq(readDeploy(t, "kubernetes/lockproxy.yaml"), "\n---\n") {
		var object struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		config.WriteString(object.Data["lockproxy.yaml"])
	}
	for name, text := range map[string]string{"the ConfigMap": config.String(),
		"lockproxy.yaml":                   readDeploy(t, "lockproxy.yaml"),
		"lockproxy.yaml with its examples": strings.ReplaceAll(readDeploy(t, "lockproxy.yaml"), "\n#masters", "\nmasters")} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if cfg, err := conf.Load([]string{"--config", path}, nil); err != nil || cfg.Embedded() {
				t.Errorf("%s: embedded %v, %v", name, cfg.Embedded(), err)
			}
		})
	}

	var compose struct {
		Proxy struct{ Environment map[string]string } `yaml:"x-proxy"`
	}
	if err := yaml.Unmarshal([]byte(readDeploy(t, "compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	environ := []string{"LOCKPROXY_LISTEN=0.0.0.0:6380"} // of the Dockerfile
	for name, value := range compose.Proxy.Environment {
		environ = append(environ, name+"="+value)
	}
	if cfg, err := conf.Load(nil, environ); err != nil || len(cfg.Masters) != 5 ||
		!strings.Contains(readDeploy(t, "Dockerfile"), "\nENV "+environ[0]+"\n") {
		t.Errorf("compose: %d masters, %v", len(cfg.Masters), err)
	}
}

// TestDeployProbesAreSubcommands: the commands of the probes are Subcommands with flags that these
// have.
func TestDeployProbesAreSubcommands(t *testing.T) {
	found := 0
	for line := range strings.Lines(readDeploy(t, "kubernetes/lockproxy.yaml") + readDeploy(t, "Dockerfile")) {
		_, list, probe := strings.Cut(line, "[/usr/bin/lockproxy, ")
		if !probe {
			_, list, probe = strings.Cut(line, `CMD ["/usr/bin/lockproxy", "`)
		}
		if !probe {
			continue
		}
		found++
		list, _, _ = strings.Cut(list, "]")
		words := strings.Fields(strings.NewReplacer(",", " ", `"`, " ").Replace(list))
		at := slices.IndexFunc(tool.Subcommands(), func(c tool.Subcommand) bool { return c.Name == words[0] })
		if at < 0 {
			t.Errorf("%s is no Subcommand", words[0])
			continue
		}
		flags := flag.NewFlagSet(words[0], flag.ContinueOnError)
		tool.Subcommands()[at].Define(flags)
		if err := flags.Parse(words[1:]); err != nil || flags.NArg() > 0 {
			t.Errorf("%q: %v, left %q", words, err, flags.Args())
		}
	}
	if found != 4 {
		t.Errorf("%d probes found, want 4", found)
	}
}

// TestDeployIsSmall: the programs in packages and images are built without html/template. It comes
// with gRPC, which comes with OpenTelemetry's messages, and makes the linker keep every method.
func TestDeployIsSmall(t *testing.T) {
	const tags = "-trimpath -tags grpcnotrace"
	for _, path := range []string{"deploy/Dockerfile", "deploy/debian/build.sh", "deploy/release.sh", "README.md",
		"docs/operations.md"} {
		line := regexp.MustCompile("go build " + tags + ` (-buildvcs=false )?(\\\n\t*)?-ldflags ["']-s -w`)
		if !line.MatchString(readDocument(t, path)) {
			t.Errorf("%s builds without %s, or without -s -w", path, tags)
		}
	}
	packages, err := exec.Command("go", "list", "-tags", "grpcnotrace", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(packages)), "html/template") {
		t.Errorf("html/template is linked with %s, too", tags)
	}
}

// TestDeployScripts: a shell can parse the scripts, and ShellCheck, if it is installed, finds no
// fault. The release refuses what is no version, and git ignores what the scripts make.
func TestDeployScripts(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	scripts, err := filepath.Glob("../../deploy/*.sh")
	if err != nil {
		t.Fatal(err)
	}
	packaging, err := filepath.Glob("../../deploy/debian/*.sh")
	if scripts = append(scripts, packaging...); err != nil || len(scripts) < 3 {
		t.Fatal(scripts, err)
	}
	for _, script := range scripts {
		if out, err := exec.Command("sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Log(err)
	} else if out, err := exec.Command("shellcheck", scripts...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, version := range []string{"", "latest", "1.2/3", "1.2;3"} {
		cmd := exec.Command("sh", "../../deploy/release.sh", version, t.TempDir())
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 2 || !strings.HasPrefix(string(out), "usage: ") {
			t.Errorf("version %q: %v\n%s", version, err, out)
		}
	}
	for _, folder := range []string{"/build/", "/dist/"} {
		if !strings.Contains("\n"+readDocument(t, ".gitignore"), "\n"+folder+"\n") {
			t.Errorf("git does not ignore %s", folder)
		}
	}
}
