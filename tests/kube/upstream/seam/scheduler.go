package seam

import (
	gocontext "context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	configtesting "k8s.io/kubernetes/pkg/scheduler/apis/config/testing"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedulerutils "k8s.io/kubernetes/test/integration/scheduler"
	testutils "k8s.io/kubernetes/test/integration/util"
	"k8s.io/utils/ptr"
)

// InitTestSchedulerWithNS is the function of the same name in test/integration/util, with our scheduler instead of the one
// in the process. That one exists, and its caches are synced because tests wait for them, but its queue is never read.
func InitTestSchedulerWithNS(t *testing.T, namespace string, options ...scheduler.Option) *testutils.TestContext {
	t.Helper()
	context := testutils.InitTestSchedulerWithOptions(t, testutils.InitTestAPIServer(t, namespace, nil), 0, options...)
	testutils.SyncSchedulerInformerFactory(context)
	Run(t, context)
	return context
}

// InitTestDisablePreemption is the function of the same name in test/integration/util, with our scheduler.
func InitTestDisablePreemption(t *testing.T, namespace string) *testutils.TestContext {
	t.Helper()
	disabled := configtesting.V1ToInternalWithDefaults(t, configv1.KubeSchedulerConfiguration{
		Profiles: []configv1.KubeSchedulerProfile{{
			SchedulerName: ptr.To(v1.DefaultSchedulerName),
			Plugins: &configv1.Plugins{
				PostFilter: configv1.PluginSet{Disabled: []configv1.Plugin{{Name: names.DefaultPreemption}}},
			},
		}},
	})
	return InitTestSchedulerWithNS(t, namespace, WithProfiles(disabled.Profiles...))
}

// InitTestSchedulerForFrameworkTest is the function of the same name in test/integration/scheduler, with our scheduler.
func InitTestSchedulerForFrameworkTest(t *testing.T, context *testutils.TestContext, nodes int, run bool, options ...scheduler.Option) (*testutils.TestContext, testutils.ShutdownFunc) {
	t.Helper()
	context, teardown := schedulerutils.InitTestSchedulerForFrameworkTest(t, context, nodes, false, options...)
	if run {
		Run(t, context)
	}
	return context, teardown
}

// Run replaces the call that runs the scheduler in the test's process. It starts ours on the test's server, with the
// options that the test has made since the last start.
func Run(t testing.TB, context *testutils.TestContext) {
	t.Helper()
	refuseBinds(t, context)
	folder := temporaryFolder(t)
	args := []string{"scheduler", "--leader-elect=false", "--metrics-listen", "127.0.0.1:0",
		"--kubeconfig", writeKubeconfig(t, folder, context.KubeConfig), "--feature-gates", gates()}
	if text := takeOptions(t); text != "" {
		args = append(args, "--config", writeFile(t, folder, "config.yaml", text))
	}
	process := start(t, folder, args...)
	schedulers.Store(context, process)
	closeServer, closeScheduler := context.CloseFn, context.SchedulerCloseFn
	context.CloseFn = func() { process.Kill(); closeServer() }
	context.SchedulerCloseFn = func() { process.Kill(); closeScheduler() }
}

// schedulers maps each test context to our scheduler.
var schedulers sync.Map

// ScheduleOne replaces the call that schedules one pod in the test's own process. Phalanx has no such step.
func ScheduleOne(t testing.TB) {
	t.Helper()
	t.Fatal(NotObservable("a single cycle"))
}

// refuseBinds fails the test when its own process binds a pod: only our scheduler may bind.
func refuseBinds(t testing.TB, context *testutils.TestContext) {
	wrapper := testutils.RoundTripWrapper(func(transport http.RoundTripper, request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/binding") {
			t.Errorf("%s was sent by the test's own process (%s), not by phalanx", request.URL.Path, request.UserAgent())
			return nil, fmt.Errorf("binds of the test's own process are refused")
		}
		return transport.RoundTrip(request)
	})
	context.RoundTrip.Store(&wrapper)
}

// WaitForRefusals waits until our scheduler reports, for the current version of each pod, that it does not fit or that its
// group is incomplete. Then it checks that none is bound.
func WaitForRefusals(context *testutils.TestContext, namespace string, names []string) error {
	for _, name := range names {
		pod, err := context.ClientSet.CoreV1().Pods(namespace).Get(context.Ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		err = wait.PollUntilContextTimeout(context.Ctx, 50*time.Millisecond, wait.ForeverTestTimeout, true, hasVerdict(context, pod))
		if err != nil {
			return fmt.Errorf("our scheduler has no verdict on pod %s: %w", name, err)
		}
	}
	for _, name := range names {
		pod, err := context.ClientSet.CoreV1().Pods(namespace).Get(context.Ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != "" {
			return fmt.Errorf("pod %s is bound to %s", name, pod.Spec.NodeName)
		}
	}
	return nil
}

// NotObservable is the error of a step that inspects something without a counterpart in our scheduler. Tests with such a
// step are listed in expectations.yaml.
func NotObservable(what string) error {
	return fmt.Errorf("%s of kube-scheduler has no counterpart in phalanx", what)
}

// VerifyAttempts checks how often our scheduler has tried to place the group.
func VerifyAttempts(context *testutils.TestContext, namespace, group string, wanted int) error {
	answer, err := explain(context, "podgroup", namespace, group)
	if err != nil {
		return err
	}
	if len(answer.Units) == 0 {
		return fmt.Errorf("our scheduler does not know PodGroup %s", group)
	}
	for _, unit := range answer.Units {
		if unit.Queue.Attempts != wanted {
			return fmt.Errorf("PodGroup %s was tried %d times, expected %d", group, unit.Queue.Attempts, wanted)
		}
	}
	return nil
}

// HasSeen reports whether our scheduler has seen the current version of the pod.
func HasSeen(context *testutils.TestContext, namespace, name string) bool {
	pod, err := context.ClientSet.CoreV1().Pods(namespace).Get(context.Ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	queue, err := askQueue(context)
	return err == nil && newEnough(queue.ResourceVersion, pod.ResourceVersion)
}

// PendingPods are the pending units of our scheduler, named as kube-scheduler names its pods.
func PendingPods(t testing.TB, context *testutils.TestContext) ([]string, string) {
	t.Helper()
	queue, err := askQueue(context)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, entry := range queue.Units {
		names = append(names, entry.Unit.Namespace+"/"+entry.Unit.Name)
	}
	return names, strings.Join(names, ", ")
}

// explanation has the fields of an /explain response that are read here.
type explanation struct {
	ResourceVersion string `json:"resourceVersion"`
	Units           []struct {
		State string `json:"state"`
		Queue struct {
			Attempts int `json:"attempts"`
		} `json:"queue"`
	} `json:"units"`
}

// queueResponse has the fields of a /queue response that are read here.
type queueResponse struct {
	ResourceVersion string `json:"resourceVersion"`
	Units           []struct {
		Unit struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"unit"`
	} `json:"units"`
}

// errUnknown: our scheduler does not know the object, or has not seen it yet.
var errUnknown = errors.New("our scheduler does not know the object")

func explain(context *testutils.TestContext, kind, namespace, name string) (answer explanation, err error) {
	query := url.Values{"kind": {kind}, "namespace": {namespace}, "name": {name}}
	err = ask(context, "/explain?"+query.Encode(), &answer)
	return answer, err
}

func askQueue(context *testutils.TestContext) (answer queueResponse, err error) {
	err = ask(context, "/queue", &answer)
	return answer, err
}

func ask(context *testutils.TestContext, path string, answer any) error {
	found, ok := schedulers.Load(context)
	if !ok {
		return fmt.Errorf("no scheduler of ours runs in this test")
	}
	status, body, err := get(found.(*Process).Metrics + path)
	switch {
	case err != nil:
		return err
	case status == http.StatusNotFound:
		return errUnknown
	case status != http.StatusOK:
		return fmt.Errorf("%s answers %d: %s", path, status, body)
	}
	return json.Unmarshal(body, answer)
}

// hasVerdict reports whether our scheduler has a verdict on the pod's unit, made with the pod's own resourceVersion or a
// later one.
func hasVerdict(context *testutils.TestContext, pod *v1.Pod) wait.ConditionWithContextFunc {
	kind, name := "pod", pod.Name
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		kind, name = "podgroup", *group.PodGroupName
	}
	return func(_ gocontext.Context) (bool, error) {
		answer, err := explain(context, kind, pod.Namespace, name)
		if errors.Is(err, errUnknown) {
			return false, nil
		}
		return err == nil && newEnough(answer.ResourceVersion, pod.ResourceVersion) && waits(answer), err
	}
}

func waits(answer explanation) bool {
	for _, unit := range answer.Units {
		if unit.State == "Waiting" {
			return true
		}
	}
	return false
}

func newEnough(seen, wanted string) bool {
	seenNumber, seenErr := strconv.ParseUint(seen, 10, 64)
	wantedNumber, wantedErr := strconv.ParseUint(wanted, 10, 64)
	return seenErr == nil && wantedErr == nil && seenNumber >= wantedNumber
}
