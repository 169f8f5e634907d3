// Package seam starts Phalanx where Kubernetes' own integration suites start a controller or the scheduler of Kubernetes.
//
// `cargo xtask kube upstream` copies a suite's test package out of the module k8s.io/kubernetes, replaces the few lines
// that start the component under test by calls into this package, compiles the result and runs it.
//
// Environment: PHALANX_BIN is the program under test. PHALANX_SUITE_HOME is the server, kube or embedded.
// PHALANX_SUITE_WAIT_SECONDS replaces wait.ForeverTestTimeout of Kubernetes.
package seam

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	restclient "k8s.io/client-go/rest"
)

// Tests that are expected to fail run with a shorter timeout than in Kubernetes.
func init() {
	if seconds, err := strconv.Atoi(os.Getenv("PHALANX_SUITE_WAIT_SECONDS")); err == nil && seconds > 0 {
		wait.ForeverTestTimeout = time.Duration(seconds) * time.Second
	}
}

// How long a process of Phalanx may take to print its line that starts with "ready".
const readyTimeout = 30 * time.Second

// Process is one running `phalanx …`.
type Process struct {
	tb      testing.TB
	command *exec.Cmd
	folder  string
	// Metrics is the base URL of /metrics, /explain and /queue; empty when the process serves none.
	Metrics string
	stop    sync.Once
}

// start runs `phalanx ARGS…` and returns once it is ready. It is killed at the end of the test at the latest.
func start(tb testing.TB, folder string, args ...string) *Process {
	tb.Helper()
	command := exec.Command(program(tb), args...)
	output, err := command.StdoutPipe()
	if err != nil {
		tb.Fatalf("phalanx: %v", err)
	}
	log, err := os.Create(filepath.Join(folder, "stderr"))
	if err != nil {
		tb.Fatalf("phalanx: %v", err)
	}
	command.Stderr = log
	if err := command.Start(); err != nil {
		tb.Fatalf("phalanx does not start: %v", err)
	}
	log.Close()
	process := &Process{tb: tb, command: command, folder: folder}
	tb.Cleanup(process.Kill)
	first := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(output)
		line, _ := lines.ReadString('\n')
		first <- line
		_, _ = io.Copy(io.Discard, lines)
	}()
	select {
	case line := <-first:
		if !strings.HasPrefix(line, "ready ") {
			tb.Fatalf("phalanx %s: first line %q, log:\n%s", args[0], line, process.log())
		}
		for _, field := range strings.Fields(line) {
			if url, found := strings.CutPrefix(field, "metrics="); found {
				process.Metrics = url
			}
		}
	case <-time.After(readyTimeout):
		tb.Fatalf("phalanx %s is not ready after %s, log:\n%s", args[0], readyTimeout, process.log())
	}
	return process
}

// Kill ends the process with SIGKILL. Where the test has failed, its log is printed.
func (p *Process) Kill() {
	p.stop.Do(func() {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
		if p.tb.Failed() {
			p.tb.Logf("log of phalanx %s:\n%s", p.command.Args[1], p.log())
		}
		_ = os.RemoveAll(p.folder)
	})
}

func (p *Process) log() string {
	text, err := os.ReadFile(filepath.Join(p.folder, "stderr"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func program(tb testing.TB) string {
	path := os.Getenv("PHALANX_BIN")
	if path == "" {
		tb.Fatal("PHALANX_BIN does not name the program under test")
	}
	return path
}

func embedded() bool {
	return os.Getenv("PHALANX_SUITE_HOME") == "embedded"
}

func temporaryFolder(tb testing.TB) string {
	folder, err := os.MkdirTemp("", "phalanx-suite-")
	if err != nil {
		tb.Fatal(err)
	}
	return folder
}

func writeFile(tb testing.TB, folder, name, text string) string {
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// writeKubeconfig writes a kubeconfig with the address and the token of config. The servers of these suites listen on
// loopback with a certificate that each test makes for itself.
func writeKubeconfig(tb testing.TB, folder string, config *restclient.Config) string {
	tb.Helper()
	if from, found := kubeconfigs.Load(config.Host); found {
		text, err := os.ReadFile(from.(string))
		if err != nil {
			tb.Fatal(err)
		}
		return writeFile(tb, folder, "kubeconfig", string(text))
	}
	return writeFile(tb, folder, "kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: suite, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: suite, user: {token: %q}}]
contexts: [{name: suite, context: {cluster: suite, user: suite}}]
current-context: suite
`, config.Host, config.BearerToken))
}

// kubeconfigs maps the address of each `phalanx up` to its kubeconfig file.
var kubeconfigs sync.Map

func get(url string) (int, []byte, error) {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, body, err
}
