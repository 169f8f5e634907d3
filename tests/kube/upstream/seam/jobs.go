package seam

import (
	"context"
	"fmt"
	"testing"
	"time"

	restclient "k8s.io/client-go/rest"
	jobcontroller "k8s.io/kubernetes/pkg/controller/job"
	jobmetrics "k8s.io/kubernetes/pkg/controller/job/metrics"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// StartJobController starts `phalanx controllers` for Jobs, with the settings that the test has given to the variables of
// the Job controller of Kubernetes. The second result ends it with SIGKILL.
func StartJobController(tb testing.TB, config *restclient.Config) (context.Context, context.CancelFunc) {
	// Tests name counters by these values, which have labels only once they are registered.
	jobmetrics.Register()
	return startControllers(tb, config, "job")
}

// startControllers starts `phalanx controllers --controllers NAMES`.
func startControllers(tb testing.TB, config *restclient.Config, names string) (context.Context, context.CancelFunc) {
	tb.Helper()
	return startControllersWith(tb, config, names, jobSettings())
}

// startControllersWith does the same with other settings: lines of the section `controllers`.
func startControllersWith(tb testing.TB, config *restclient.Config, names, lines string) (context.Context, context.CancelFunc) {
	tb.Helper()
	_, ctx := ktesting.NewTestContext(tb)
	ctx, cancel := context.WithCancel(ctx)
	folder := temporaryFolder(tb)
	settings := writeFile(tb, folder, "config.yaml", configurationHead+lines)
	process := start(tb, folder, "controllers", "--controllers", names, "--leader-elect=false",
		"--kubeconfig", writeKubeconfig(tb, folder, config), "--config", settings,
		"--metrics-listen", "127.0.0.1:0", "--feature-gates", gates())
	counters.begin(process)
	stop := func() {
		counters.end(process)
		process.Kill()
		cancel()
	}
	tb.Cleanup(stop)
	return ctx, stop
}

const configurationHead = `apiVersion: phalanx.dev/v1alpha1
kind: Configuration
controllers:
`

func jobSettings() string {
	backoff := jobcontroller.DefaultJobPodFailureBackOff
	longest := max(jobcontroller.MaxJobPodFailureBackOff, backoff)
	return fmt.Sprintf("  podBackoff: %s\n  maxPodBackoff: %s\n  jobSyncBatchPeriod: %s\n  maxPodsPerSync: %d\n  maxUncountedPods: %d\n",
		milliseconds(backoff), milliseconds(longest), milliseconds(jobcontroller.SyncJobBatchPeriod),
		jobcontroller.MaxPodCreateDeletePerSync, jobcontroller.MaxUncountedPods)
}

func milliseconds(duration time.Duration) string {
	return fmt.Sprintf("%dms", duration.Milliseconds())
}
