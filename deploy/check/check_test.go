// Package check parses the files in deploy with the parsers of the programs that use them:
// BuildKit, Compose, the types of the Kubernetes API, systemd and dpkg. It is a module of its own,
// because these parsers need hundreds of others:
//
//	cd deploy/check && go test ./...
package check

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// TestDockerfile: BuildKit parses it, its linter finds no fault, and the image is static, does not
// run as root and has a health check.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	warn := func(rule, description, _, message string, _ []parser.Range) {
		t.Errorf("%s: %s (%s)", rule, message, description)
	}
	stages, _, err := instructions.Parse(tree.AST, linter.New(&linter.Config{Warn: warn}))
	if err != nil {
		t.Fatal(err)
	}
	last := stages[len(stages)-1]
	found := map[string]string{"FROM": last.BaseName}
	for _, command := range last.Commands {
		switch c := command.(type) {
		case *instructions.UserCommand:
			found["USER"] = c.User
		case *instructions.HealthCheckCommand:
			found["HEALTHCHECK"] = strings.Join(c.Health.Test, " ")
		case *instructions.EntrypointCommand:
			found["ENTRYPOINT"] = strings.Join(c.CmdLine, " ")
		}
	}
	for name, want := range map[string]string{"FROM": "scratch", "USER": "65532:65532",
		"HEALTHCHECK": "CMD /usr/bin/lockproxy health", "ENTRYPOINT": "/usr/bin/lockproxy"} {
		if found[name] != want {
			t.Errorf("%s is %q, want %q", name, found[name], want)
		}
	}
}

// TestCompose: Compose reads it and finds five masters, an upstream and two proxies.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithInterpolation(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := project.ServiceNames()
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "master-1 master-2 master-3 master-4 master-5 one two upstream" {
		t.Errorf("services: %s", got)
	}
	for _, name := range []string{"one", "two"} {
		service := project.Services[name]
		masters := service.Environment["LOCKPROXY_MASTERS"]
		if masters == nil || strings.Count(*masters, "master-") != 5 || len(service.Ports) != 2 ||
			service.Ports[0].HostIP != "127.0.0.1" || service.Ports[1].HostIP != "127.0.0.1" ||
			service.Ports[1].Target != 9380 {
			t.Errorf("%s: masters %v, ports %v", name, masters, service.Ports)
		}
	}
}

// TestKubernetes: every document has the fields of its kind and no others, and they fit together.
func TestKubernetes(t *testing.T) {
	var (
		deployment appsv1.Deployment
		service    corev1.Service
		budget     policyv1.PodDisruptionBudget
		config     corev1.ConfigMap
	)
	kinds := map[string]any{"ConfigMap": &config, "Secret": &corev1.Secret{}, "ServiceAccount": &corev1.ServiceAccount{},
		"Deployment": &deployment,
		"Service":    &service, "PodDisruptionBudget": &budget}
	readDocuments(t, "../kubernetes/lockproxy.yaml", kinds)
	labels := deployment.Spec.Template.Labels
	if !matches(service.Spec.Selector, labels) || !matches(budget.Spec.Selector.MatchLabels, labels) ||
		!matches(deployment.Spec.Selector.MatchLabels, labels) {
		t.Error("a selector does not find the pods")
	}
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	if container.ReadinessProbe == nil || container.LivenessProbe == nil || container.Lifecycle.PreStop.Sleep == nil ||
		!*pod.SecurityContext.RunAsNonRoot {
		t.Error("probes, preStop or runAsNonRoot are missing")
	}
	if drain := int64(30); *pod.TerminationGracePeriodSeconds < container.Lifecycle.PreStop.Sleep.Seconds+drain {
		t.Errorf("%d s are not enough for preStop and drain-timeout", *pod.TerminationGracePeriodSeconds)
	}
	if !strings.Contains(config.Data["lockproxy.yaml"], "drain-timeout: 30s") {
		t.Error("drain-timeout is another")
	}
	if !strings.Contains(config.Data["lockproxy.yaml"], "admin-listen: 0.0.0.0:9380\nadmin-token-file: ") ||
		container.Ports[1].ContainerPort != 9380 {
		t.Error("no metrics, or without a token")
	}
}

// readDocuments reads a file with exactly one document of each kind.
func readDocuments(t *testing.T, path string, kinds map[string]any) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(file))
	for {
		document, err := reader.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var head struct{ Kind string }
		if err := yaml.Unmarshal(document, &head); err != nil {
			t.Fatal(err)
		}
		into, known := kinds[head.Kind]
		if !known {
			t.Errorf("a document of kind %q, or a second one", head.Kind)
			continue
		}
		delete(kinds, head.Kind)
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Errorf("%s: %v", head.Kind, err)
		}
	}
	if len(kinds) > 0 {
		t.Errorf("missing: %v", kinds)
	}
}

func matches(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return len(selector) > 0
}

// TestDebianPackage builds the package, installs it with dpkg into a folder, and runs the program
// from there.
func TestDebianPackage(t *testing.T) {
	for _, program := range []string{"dpkg", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	root, built := t.TempDir(), t.TempDir()
	run(t, "sh", "../debian/build.sh", "1.2.3", built)
	found, err := filepath.Glob(built + "/lockproxy_1.2.3_*.deb")
	if err != nil || len(found) != 1 {
		t.Fatalf("packages: %q, %v", found, err)
	}
	dpkg := dpkgIn(t, root)
	dpkg("--install", found[0])
	if got := run(t, root+"/usr/bin/lockproxy", "--version"); !strings.Contains(got, "v1.2.3") {
		t.Errorf("it is %s", got)
	}
	run(t, root+"/usr/bin/lockproxy", "--check", "--config", root+"/etc/lockproxy/lockproxy.yaml")
	for _, file := range []string{"/lib/systemd/system/lockproxy.service", "/lib/systemd/system/lockproxy@.service",
		"/etc/logrotate.d/lockproxy",
		"/usr/share/lockproxy/monitoring/rules.yaml", "/usr/share/lockproxy/monitoring/dashboard.json",
		"/usr/share/man/man1/lockproxy.1.gz",
		"/usr/share/zsh/vendor-completions/_lockproxy", "/usr/share/fish/vendor_completions.d/lockproxy.fish",
		"/usr/lib/sysusers.d/lockproxy.conf", "/usr/share/bash-completion/completions/lockproxy",
		"/usr/share/doc/lockproxy/docs/operations.md"} {
		if info, err := os.Stat(root + file); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	if got := dpkg("--status", "lockproxy"); !strings.Contains(got, "Status: install ok installed") ||
		!strings.Contains(got, " /etc/lockproxy/lockproxy.yaml ") {
		t.Errorf("dpkg says\n%s", got)
	}
	checkManual(t, root+"/usr/share/man/man1/lockproxy.1.gz")
	checkLinks(t, root+"/usr/share/doc/lockproxy")
	if text, err := os.ReadFile(root + "/etc/lockproxy/lockproxy.yaml"); err != nil ||
		!strings.Contains(string(text), "\nadmin-listen: 127.0.0.1:9380\n") {
		t.Errorf("no page on loopback: %v", err)
	}
	checkStatic(t, root+"/usr/bin/lockproxy")
	dpkg("--purge", "lockproxy")
	if _, err := os.Stat(root + "/usr/bin/lockproxy"); err == nil {
		t.Error("it is still there when purged")
	}
}

// dpkgIn prepares a folder for dpkg, and returns a function that runs dpkg there.
func dpkgIn(t *testing.T, root string) func(args ...string) string {
	t.Helper()
	for _, folder := range []string{"/var/lib/dpkg/updates", "/var/lib/dpkg/info"} {
		if err := os.MkdirAll(root+folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"/var/lib/dpkg/status", "/var/lib/dpkg/available"} {
		if err := os.WriteFile(root+file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(args ...string) string {
		t.Helper()
		return run(t, "dpkg", append([]string{"--root=" + root, "--force-script-chrootless", "--force-not-root",
			"--log=/dev/null"}, args...)...)
	}
}

// checkManual formats the manual: no warning, and every option is there.
func checkManual(t *testing.T, path string) {
	if _, err := exec.LookPath("man"); err != nil {
		t.Log(err)
		return
	}
	cmd := exec.Command("man", "--local-file", "--warnings", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=200", "MAN_KEEP_FORMATTING=")
	var warnings bytes.Buffer
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	if err != nil || warnings.Len() > 0 {
		t.Errorf("man: %v %s", err, &warnings)
	}
	for _, want := range []string{"lockproxy 1.2.3", "--masters-password-file", "SIGHUP"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the manual lacks %q:\n%s", want, out)
		}
	}
}

// checkLinks follows every relative link of the documents in folder.
func checkLinks(t *testing.T, folder string) {
	t.Helper()
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	links := 0
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		for _, found := range link.FindAllStringSubmatch(read(t, path), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), found[1])); err != nil {
				t.Errorf("%s links to %s: %v", path, found[1], err)
			}
		}
		return nil
	})
	if err != nil || links < 150 {
		t.Errorf("%d links found, %v", links, err)
	}
}

// checkStatic runs the program in an empty root folder, like the image.
func checkStatic(t *testing.T, program string) {
	if os.Getuid() != 0 {
		t.Log("not root: the program is not tried in an empty root")
		return
	}
	empty := t.TempDir()
	text, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(empty+"/lockproxy", text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, "chroot", empty, "/lockproxy", "--check")
}

// TestSystemdUnit: systemd accepts the units and rates their exposure as low.
func TestSystemdUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"lockproxy.service", "lockproxy@.service"} {
		// The program need not be installed here.
		unit := strings.Replace(read(t, "../systemd/"+name), "/usr/bin/lockproxy", "/bin/true", 1)
		path := filepath.Join(t.TempDir(), strings.Replace(name, "@", "@a", 1))
		if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
			t.Fatal(err)
		}
		if out := run(t, "systemd-analyze", "verify", "--man=no", path,
			"../systemd/lockproxy.socket"); strings.Contains(out, "lockproxy") {
			t.Errorf("systemd says\n%s", out)
		}
		run(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", path)
	}
}

// TestSystemdTemplate: an instance has the same rights as the only one, and a file and a directory
// of its own.
func TestSystemdTemplate(t *testing.T) {
	lines := strings.Split(read(t, "../systemd/lockproxy@.service"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "# Several") || strings.HasPrefix(line, "# Each")
	})
	got := strings.NewReplacer("lockproxy %i", "lockproxy", "%i.yaml", "lockproxy.yaml", "-%i",
		"").Replace(strings.Join(lines, "\n"))
	if got != read(t, "../systemd/lockproxy.service") {
		t.Errorf("lockproxy@.service differs from lockproxy.service:\n%s", got)
	}
}

// TestLogrotate rotates the audit log in the folder that the unit lets it write to; lockproxy gets
// a signal.
func TestLogrotate(t *testing.T) {
	text := read(t, "../debian/logrotate")
	for _, want := range []string{"\n/var/log/lockproxy/*.log {\n", "systemctl reload 'lockproxy.service'",
		"\tsu lockproxy lockproxy\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if !strings.Contains(read(t, "../systemd/lockproxy.service"), "\nLogsDirectory=lockproxy\n") {
		t.Error("the unit writes elsewhere")
	}
	if _, err := exec.LookPath("logrotate"); err != nil {
		t.Skip(err)
	}
	run(t, "logrotate", "--debug", "../debian/logrotate")
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run runs a program that must succeed, and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}
