package lab

import "testing"

// LaunchTool starts a subcommand of the built program.
func LaunchTool(t testing.TB, args ...string) *Process {
	t.Helper()
	path, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	return Launch(t, "lockproxy-"+args[0], path, args...)
}

// WantExit waits for the end of a process and compares its exit code.
func WantExit(t testing.TB, p *Process, code int) {
	t.Helper()
	WaitFor(t, "the end of "+p.name, Patience, func() bool { return !p.Running() })
	if got := p.Cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("exit code: got %d, want %d\n%s", got, code, p.Log)
	}
}

// FinishTool runs a subcommand to its end, which must have the exit code, and returns its output.
func FinishTool(t testing.TB, code int, args ...string) string {
	t.Helper()
	p := LaunchTool(t, args...)
	WantExit(t, p, code)
	return p.Log.String()
}
